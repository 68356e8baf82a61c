import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { commandWord } from "./command-word.ts";

test("a word is taken by a shell as it is meant, and left alone where that needs no quotes", () => {
  expect(["web-1", "<workload>", "a.b_c:7"].map(commandWord)).toEqual(["web-1", "<workload>", "a.b_c:7"]);
  const odd = ["it's", 'a "b"', "$(id)", "`id`", "a b", "#7", "*", "\\", "поиск", "~", "-x", "'"];
  const line = `printf '%s\\n' ${odd.map(commandWord).join(" ")}`;
  expect(execFileSync("sh", ["-c", line], { encoding: "utf8" })).toBe(`${odd.join("\n")}\n`);
});
