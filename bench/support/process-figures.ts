import { readFile } from "node:fs/promises";

export interface ProcessFigures {
  /** User and system time since it started. */
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** Linux counts in ticks of 10 ms for every program of today. */
const msPerTick = 10;

export const processFigures = async (pid: number): Promise<ProcessFigures> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  // The command may hold spaces and brackets; the fields begin after its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return {
    cpuMs: (Number(fields[11]) + Number(fields[12])) * msPerTick,
    rssBytes: Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) * 1024,
  };
};
