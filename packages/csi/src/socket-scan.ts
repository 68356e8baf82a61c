import type { Dirent } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import path from "node:path";

/** The sockets, oldest first; undefined when the directory cannot be read just now, which says nothing about them. */
export function createSocketScan(dir: string, onDirectories: (subdirs: readonly string[]) => void) {
  return async (): Promise<string[] | undefined> => {
    let entries: Dirent[];
    try {
      entries = await readdir(dir, { withFileTypes: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
    const subdirs = entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(dir, name));
    onDirectories(subdirs);
    const own = entries.filter(({ name }) => name.endsWith(".sock")).map(({ name }) => path.join(dir, name));
    const candidates = [...own, ...subdirs.map((subdir) => path.join(subdir, "csi.sock"))];
    const born = await Promise.all(
      candidates.map(async (socketPath) => {
        const found = await lstat(socketPath).catch(() => undefined);
        return found && { socketPath, at: found.birthtimeMs };
      }),
    );
    return born
      .filter((one) => one !== undefined)
      .sort((a, b) => a.at - b.at)
      .map(({ socketPath }) => socketPath);
  };
}
