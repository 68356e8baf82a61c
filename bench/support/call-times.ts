import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type { CallTime } from "@holdfast/sim-plugin/call-times";
import type { Sample } from "./load.ts";

export interface PluginTime {
  /** Calls about that volume while the sample ran. */
  readonly calls: number;
  readonly ms: number;
}

export interface PluginTimes {
  /** What the plugins took of one call of ours, by the storage's id of the volume. */
  of(externalId: string, sample: Sample): PluginTime;
  /** When the last call of that method before the moment was answered, if there was one. */
  lastAnswer(method: string, before: bigint): bigint | undefined;
}

/** Of plugins that do nothing. */
export const noPluginTimes: PluginTimes = { of: () => ({ calls: 0, ms: 0 }), lastAnswer: () => undefined };

const linesOf = async (dir: string): Promise<readonly CallTime[]> => {
  const texts = await Promise.all((await readdir(dir)).map((file) => readFile(path.join(dir, file), "utf8")));
  // What follows the last line break is a line that is still being written.
  const lines = texts.flatMap((text) => text.slice(0, text.lastIndexOf("\n") + 1).split("\n"));
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as CallTime);
};

/** Reads what the simulated plugins noted of their own calls. Call it when nothing is in flight. */
export const readCallTimes = async (dir: string): Promise<PluginTimes> => {
  // The answer may reach us before the note of it reaches the file.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const lines = await linesOf(dir);
  const byVolume = Map.groupBy(lines, ({ volume }) => volume);
  return {
    of: (externalId, { begin, end }) => {
      const during = (byVolume.get(externalId) ?? []).filter(
        (call) => BigInt(call.begin) >= begin && BigInt(call.end) <= end,
      );
      const nanoseconds = during.reduce((sum, call) => sum + Number(BigInt(call.end) - BigInt(call.begin)), 0);
      return { calls: during.length, ms: nanoseconds / 1e6 };
    },
    lastAnswer(method, before) {
      const ends = lines.filter((line) => line.method === method).map(({ end }) => BigInt(end));
      return ends
        .filter((end) => end <= before)
        .reduce<bigint | undefined>((a, b) => (a !== undefined && a > b ? a : b), undefined);
    },
  };
};
