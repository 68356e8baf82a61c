/** What a program of a test started and mounted under a directory of its own: ended, unmounted and removed. */
import { spawnSync } from "node:child_process";
import { readdir, readFile, rm } from "node:fs/promises";
import { until } from "./until.ts";

export const endUnder = async (dir: string): Promise<void> => {
  await until(`what runs under ${dir} to end`, async () => (await killUnder(dir)) === 0);
  await unmountUnder(dir);
  await rm(dir, { recursive: true, force: true });
};

export const unmountUnder = async (dir: string): Promise<void> => {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map((line) => line.split(" ")[4] ?? "");
  for (const mount of mounts.filter((one) => one.startsWith(`${dir}/`)).reverse()) spawnSync("umount", [mount]);
};

/**
 * Tasks outlive an engine that was killed: what runs them names its directory, and is their parent. All are found before any is killed, as
 * a task has no parent any more once that is dead. Answers how many there were.
 */
export const killUnder = async (dir: string): Promise<number> => {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (!command.includes(`${dir}/`)) continue;
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
    found.push(pid, ...children.split(" ").filter((child) => child !== ""));
  }
  if (found.length > 0) spawnSync("kill", ["-9", ...found]);
  return found.length;
};
