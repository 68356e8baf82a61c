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

/** Writes a line for each call once its answer is ready to leave: what the plugin itself took, to a benchmark. */
export const timed = (perform: Perform, file: string): Perform => {
  const out = createWriteStream(file, { flags: "a" });
  return async (method, request, context) => {
    const begin = process.hrtime.bigint();
    try {
      return await perform(method, request, context);
    } finally {
      const volume = "volumeId" in request ? request.volumeId : "";
      const line: CallTime = { method, volume, begin: `${begin}`, end: `${process.hrtime.bigint()}` };
      out.write(`${JSON.stringify(line)}\n`);
    }
  };
};
