/** What tests of real container engines share: an image, and what an engine leaves that was killed. */
import { execFile, spawnSync } from "node:child_process";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

/** A root with nothing but busybox, packed for `import`. */
export const packBusybox = async (root: string): Promise<string> => {
  await mkdir(path.join(root, "bin"), { recursive: true });
  spawnSync("cp", ["/usr/bin/busybox", path.join(root, "bin/busybox")]);
  for (const name of ["sh", "cat", "sleep", "ls"]) await symlink("busybox", path.join(root, "bin", name));
  const archive = `${root}.tar`;
  await promisify(execFile)("tar", ["-C", root, "-cf", archive, "."]);
  return archive;
};

/** Containers outlive an engine that was killed: what watches them names its directory, and is their parent. */
export const killUnder = async (dir: string): Promise<void> => {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (!command.includes(`${dir}/`)) continue;
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
    spawnSync("kill", ["-9", ...children.split(" ").filter((child) => child !== ""), pid]);
  }
};

export const unmountUnder = async (dir: string): Promise<void> => {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map((line) => line.split(" ")[4] ?? "");
  for (const mount of mounts.filter((one) => one.startsWith(`${dir}/`)).reverse()) spawnSync("umount", [mount]);
};
