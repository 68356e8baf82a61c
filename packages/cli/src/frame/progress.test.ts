import { expect, test } from "vitest";
import type { Io } from "./io.ts";
import { startProgress } from "./progress.ts";

const shownOn = (terminal: boolean, said: readonly string[]): string => {
  let text = "";
  const io = {
    stderr: {
      write: (part: string) => {
        text += part;
      },
      terminal,
      columns: 80,
    },
    now: () => 0,
  } as unknown as Io;
  const progress = startProgress(io, false);
  for (const line of said) progress.say(line);
  progress.end();
  return text;
};

test("elsewhere than on a terminal each change has its line, and nothing to say has none", () => {
  expect(shownOn(false, ["", "data OFFERED", "data OFFERED", "", "data ACTIVE"])).toBe(
    "… data OFFERED\n… data ACTIVE\n",
  );
});

test("on a terminal the live line is taken away at the end, also when the last word was empty", () => {
  expect(shownOn(true, [""])).toBe("");
  expect(shownOn(true, ["data OFFERED", ""])).toBe("\r\u001b[2K… data OFFERED (0s)\r\u001b[2K");
});
