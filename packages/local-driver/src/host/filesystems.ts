import { DriverError } from "../domain/driver-error.ts";
import type { Filesystems } from "../ports.ts";
import type { RunTool } from "./run-tool.ts";

/** By children: statfs and chmod of a filesystem whose device is in trouble may hang, and four hung calls would freeze this process. */
export function createFilesystems({ run }: { readonly run: RunTool }): Filesystems {
  return {
    usage: async (mountPoint, signal) => {
      const { stdout } = await run("stat", ["-f", "-c", "%S %b %f %a %c %d", "--", mountPoint], { signal });
      const [unit, blocks, free, available, inodes, freeInodes] = numbersOf(mountPoint, stdout);
      return {
        bytes: { total: blocks * unit, used: (blocks - free) * unit, available: available * unit },
        inodes: { total: inodes, used: inodes - freeInodes, available: freeInodes },
      };
    },
    giveToGroup: async (directory, gid, signal) => {
      // find, since chmod would follow a symlink. What it is not a directory gets nothing, and nothing is printed.
      const actions = ["-exec", "chgrp", "-h", "--", gid, "{}", ";", "-exec", "chmod", "g+rwxs", "--", "{}", ";"];
      const { stdout } = await run(
        "find",
        ["-P", directory, "-maxdepth", "0", "-type", "d", ...actions, "-printf", "given"],
        { signal },
      );
      if (stdout === "given") return;
      throw new DriverError(
        "FAILED_PRECONDITION",
        `cannot give ${directory} to group ${gid}: ${stdout === "" ? "it is not a directory" : stdout}`,
      );
    },
  };
}

function numbersOf(mountPoint: string, text: string): readonly [bigint, bigint, bigint, bigint, bigint, bigint] {
  const numbers = text.trim().split(" ");
  if (numbers.length !== 6 || !numbers.every((it) => /^\d+$/.test(it)))
    throw new DriverError("INTERNAL", `cannot tell the usage of ${mountPoint}: stat answered ${JSON.stringify(text)}`);
  const [unit = 0n, blocks = 0n, free = 0n, available = 0n, inodes = 0n, freeInodes = 0n] = numbers.map(BigInt);
  return [unit, blocks, free, available, inodes, freeInodes];
}
