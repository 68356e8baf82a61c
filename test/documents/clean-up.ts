import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";

/** Only after a failed test is there anything to unmount; the newest first. */
export const unmountUnder = async (dir: string): Promise<void> => {
  const table = await readFile("/proc/self/mountinfo", "utf8");
  const points = table.split("\n").map((line) => line.split(" ")[4] ?? "");
  for (const point of points.filter((each) => each.startsWith(`${dir}/`)).reverse()) spawnSync("umount", ["-l", point]);
};
