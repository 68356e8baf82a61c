import { expect, test } from "vitest";
import type { Input } from "./command.ts";
import { answerOne } from "./one-answer.ts";
import { shown } from "./output.ts";

const codec = { encode: () => ({ finish: () => new Uint8Array() }) };

const told = (form: string | undefined, names: readonly string[]): string => {
  const input: Input = {
    arg: () => "",
    optionalArg: () => undefined,
    args: () => [],
    text: (name) => (name === "output" ? form : undefined),
    list: () => [],
    flag: () => false,
  };
  let text = "";
  const out = {
    answer: (_: unknown, people: () => string) => {
      text = people();
    },
  };
  answerOne(out, input, { answer: shown("holdfast.v1.Any", codec, {}), names, people: () => "a table\n" });
  return text;
};

test("people read words, and with -o name a name a line", () => {
  expect(told(undefined, ["data"])).toBe("a table\n");
  expect(told("name", ["data"])).toBe("data\n");
  expect(told("name", ["web-1 data", "web-1 logs"])).toBe("web-1 data\nweb-1 logs\n");
});

test("an answer without an object has no name", () => expect(told("name", [])).toBe(""));
