import { execFile, spawnSync } from "node:child_process";
import { mkdir, symlink } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

/** For tests of real container engines: a root with nothing but busybox, packed for `import`. */
export const packBusybox = async (root: string): Promise<string> => {
  await mkdir(path.join(root, "bin"), { recursive: true });
  spawnSync("cp", ["/usr/bin/busybox", path.join(root, "bin/busybox")]);
  for (const name of ["sh", "cat", "sleep", "ls"]) await symlink("busybox", path.join(root, "bin", name));
  const archive = `${root}.tar`;
  await promisify(execFile)("tar", ["-C", root, "-cf", archive, "."]);
  return archive;
};
