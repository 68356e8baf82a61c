// The CPU time of a process and of its children.
//
// Counted: the process itself, and each child that ended and was waited for, with the children of that child in turn.
// Not counted: a child that still runs, and a process whose parent died first (its CPU goes to the process with pid 1).
import { existsSync, readFileSync } from "node:fs";

/** Linux counts in hundredths of a second in /proc, whatever the kernel's own clock is. */
const ticksPerSecond = 100;

/** @returns {number | undefined} seconds; undefined where there is no /proc */
export function cpuSeconds() {
  if (!existsSync("/proc/self/stat")) return undefined;
  const stat = readFileSync("/proc/self/stat", "utf8");
  // The name of the program, in brackets, may hold spaces; utime is the twelfth field after the name.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond;
}

/** @returns {() => string | undefined} what the CPU and the wall time were since this call, for people */
export function startClock() {
  const cpu = cpuSeconds();
  const wall = performance.now();
  const minutes = (seconds) => (seconds / 60).toFixed(1);
  return () =>
    cpu === undefined
      ? undefined
      : `CPU ${minutes(cpuSeconds() - cpu)} min in ${minutes((performance.now() - wall) / 1000)} min, of every process that ended and was waited for`;
}
