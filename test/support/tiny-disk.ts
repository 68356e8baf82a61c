/** A small disk that a test fills and empties: a tmpfs, which needs root. */
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export interface TinyDisk {
  readonly dir: string;
  /** Takes all that is free. A file that is there goes on to the end of its last page. */
  fill(): void;
  /** Gives back what `fill` took. */
  empty(): void;
  freeBytes(): number;
  remove(): void;
}

const isFull = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOSPC";

export const mountTinyDisk = (kibibytes: number): TinyDisk => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${kibibytes}k,mode=0700`, "tmpfs", dir]);
  const filler = path.join(dir, "filler");
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize;
  };
  return {
    dir,
    freeBytes,
    fill() {
      const fd = openSync(filler, "a");
      const page = Buffer.alloc(4096);
      try {
        for (;;) writeSync(fd, page);
      } catch (error) {
        if (!isFull(error)) throw error;
      } finally {
        closeSync(fd);
      }
    },
    empty: () => rmSync(filler, { force: true }),
    remove() {
      execFileSync("umount", ["--lazy", dir]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
};
