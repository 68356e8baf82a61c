import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Takes away what a failed run left mounted, before its directories are removed. */
export const unmountBelow = (dir: string): void => {
  const points = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((point) => point.startsWith(`${dir}/`));
  for (const point of points.reverse()) execFileSync("umount", ["--lazy", point]);
};
