import { createWriteStream } from "node:fs";
import type { Perform } from "./role/perform.ts";

/** One call, by CLOCK_MONOTONIC in nanoseconds: comparable between all processes of a machine. */
export interface CallTime {
  readonly method: string;
  /** Empty for calls about no volume. */
  readonly volume: string;
  readonly begin: string;
  readonly end: string;
}

/** Answers have left by then, and whoever reads the lines waits longer. */
const noteAfterMs = 50;

/**
 * Writes a line for each call once its answer is ready to leave: what the plugin itself took, to a benchmark. Lines are made and written
 * some time later and together: what the note of a call takes would delay its answer, and be charged to whoever called.
 */
export const timed = (perform: Perform, file: string): Perform => {
  const out = createWriteStream(file, { flags: "a" });
  let ended: CallTime[] = [];
  const write = (): void => {
    out.write(ended.map((line) => `${JSON.stringify(line)}\n`).join(""));
    ended = [];
  };
  return async (method, request, context) => {
    const begin = process.hrtime.bigint();
    try {
      return await perform(method, request, context);
    } finally {
      const volume = "volumeId" in request ? request.volumeId : "";
      if (ended.length === 0) setTimeout(write, noteAfterMs);
      ended.push({ method, volume, begin: `${begin}`, end: `${process.hrtime.bigint()}` });
    }
  };
};
