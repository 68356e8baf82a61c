import { processFigures } from "./process-figures.ts";
import type { Subject } from "./subject.ts";

/** Milliseconds of CPU by part. */
export type CpuTimes = Readonly<Record<string, number>>;

/** What each part of a subject has used since its start. */
export const cpuTimesOf = async ({ pids }: Pick<Subject, "pids">): Promise<CpuTimes> => {
  const parts = Object.entries(pids).map(async ([part, list]) => {
    const figures = await Promise.all(list.map(processFigures));
    return [part, figures.reduce((sum, { cpuMs }) => sum + cpuMs, 0)] as const;
  });
  return Object.fromEntries(await Promise.all(parts));
};

export const cpuBetween = (before: CpuTimes, after: CpuTimes): CpuTimes =>
  Object.fromEntries(Object.entries(after).map(([part, value]) => [part, value - (before[part] ?? 0)]));
