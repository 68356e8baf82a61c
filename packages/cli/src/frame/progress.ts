import { durationWords } from "../words/duration.ts";
import type { Io } from "./io.ts";

export interface Progress {
  /** What is being waited for now. */
  say(text: string): void;
  /** Takes the live line away. */
  end(): void;
}

const tickMs = 1_000;

/** On a terminal one line that lives, with the time that has passed; elsewhere a line for each change. */
export const startProgress = (io: Io, quiet: boolean): Progress => {
  if (quiet) return { say: () => undefined, end: () => undefined };
  const began = io.now();
  let last = "";
  const draw = (): void => {
    if (last === "") return;
    const line = `… ${last} (${durationWords(io.now() - began)})`;
    io.stderr.write(`\r\u001b[2K${line.slice(0, Math.max(20, io.stderr.columns - 1))}`);
  };
  const timer = io.stderr.terminal ? setInterval(draw, tickMs) : undefined;
  return {
    say(text) {
      // A live line that nothing replaces stays until it is taken away.
      if (text === "" || text === last) return;
      last = text;
      if (io.stderr.terminal) draw();
      else io.stderr.write(`… ${text}\n`);
    },
    end() {
      clearInterval(timer);
      if (io.stderr.terminal && last !== "") io.stderr.write("\r\u001b[2K");
      last = "";
    },
  };
};
