import { spawnSync } from "node:child_process";
import { lstat, readdir } from "node:fs/promises";
import path from "node:path";

export interface LoopFile {
  readonly device: string;
  /** Without the mark that it was deleted. */
  readonly file: string;
  readonly readonly: boolean;
}

interface BoundDevice {
  readonly device: string;
  /** Device and inode of its file. */
  readonly identity: string;
  /** As the kernel spells it from here: another text once the mount namespace ended in which the file was opened. */
  readonly spelled: string;
  readonly readonly: boolean;
}

/** Spaces stand escaped inside of a column. */
const plain = (column: string): string =>
  column.replace(/\\x([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))).trim();

const boundDevices = (): readonly BoundDevice[] => {
  const columns = "NAME,BACK-INO,BACK-MAJ:MIN,RO,BACK-FILE";
  const { status, stdout, stderr } = spawnSync("losetup", ["--list", "--noheadings", "--raw", "--output", columns], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`losetup --list ended with ${status}: ${stderr}`);
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [device = "", inode, numbers = "", readonly, ...spelled] = line.split(" ");
      const file = plain(spelled.join(" ")).replace(/ \(deleted\)$/, "");
      return { device, identity: `${plain(numbers)} ${inode}`, spelled: file, readonly: readonly === "1" };
    });
};

const identityOf = ({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): string => {
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & 0xfffff000n);
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n);
  return `${major}:${minor} ${BigInt.asUintN(64, ino)}`;
};

/** Every file of the directory, not of what is mounted below it. */
const filesBelow = async (dir: string): Promise<ReadonlyMap<string, string>> => {
  const found = new Map<string, string>();
  const walk = async (at: string, disk: bigint): Promise<void> => {
    // It may be deleted while it is looked at.
    for (const name of await readdir(at).catch(() => [])) {
      const place = path.join(at, name);
      const facts = await lstat(place, { bigint: true }).catch(() => undefined);
      if (facts?.isFile()) found.set(identityOf(facts), place);
      else if (facts?.isDirectory() && facts.dev === disk) await walk(place, disk);
    }
  };
  const top = await lstat(dir, { bigint: true }).catch(() => undefined);
  if (top !== undefined) await walk(dir, top.dev);
  return found;
};

/** The loop devices of this machine whose file is below a directory: by device and inode, and by its path, as it may be deleted. */
export const loopsUnder = async (dir: string): Promise<readonly LoopFile[]> => {
  const bound = boundDevices();
  if (bound.length === 0) return [];
  const files = await filesBelow(dir);
  return bound.flatMap(({ device, identity, spelled, readonly }) => {
    const file = files.get(identity) ?? (spelled.startsWith(`${dir}/`) ? spelled : undefined);
    return file === undefined ? [] : [{ device, file, readonly }];
  });
};

/** Only after a failed test is there anything to let go of. */
export const detachLoopsUnder = async (dir: string): Promise<void> => {
  for (const { device } of await loopsUnder(dir)) spawnSync("losetup", ["--detach", device]);
};
