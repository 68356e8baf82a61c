import { readFile } from "node:fs/promises";

/** Linux counts in ticks of 10 ms for every program of today. */
const millisecondsPerTick = 10;

/** User and system time of a process since it started. */
export const cpuMilliseconds = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The command may hold spaces and brackets; the fields begin after its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * millisecondsPerTick;
};

export const rssBytes = async (pid: number): Promise<number> => {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) * 1024;
};
