import { constants, copyFile, lstat, mkdtemp, open, readdir, rm, unlink } from "node:fs/promises";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { Copier } from "../ports.ts";
import { syncFile } from "./file-sync.ts";
import { errnoOf, hostFailure } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";

/** Of the directory in which reflinks are tried. */
export const probePrefix = ".reflink-";

/** As filesystems without reflinks answer FICLONE. */
const cannotClone = new Set(["EOPNOTSUPP", "ENOTSUP", "EINVAL", "ENOTTY", "ENOSYS", "EXDEV", "EPERM"]);

export function createCopier({ run, stateDir }: { readonly run: RunTool; readonly stateDir: string }): Copier {
  let probe: Promise<boolean> | undefined;
  const reflinks = (): Promise<boolean> => {
    probe ??= probeReflinks(stateDir).catch((error: unknown) => {
      // A full disk says nothing about reflinks: the next one asks again.
      probe = undefined;
      throw error;
    });
    return probe;
  };
  return {
    reflinks,
    image: async (from, to, signal) => {
      // Never `auto`: where a copy is one moment's picture it must not silently become a slow one that is not.
      const how = (await reflinks()) ? ["--reflink=always"] : ["--reflink=never", "--sparse=always"];
      await requireAbsent(to);
      try {
        await run("cp", [...how, "-T", "--", from, to], { signal });
        await syncFile(to);
      } catch (error) {
        await unlink(to).catch(() => undefined);
        throw error;
      }
    },
    tree: async (from, to, signal) => {
      const wasThere = await requireAbsentOrEmpty(to);
      try {
        await run("cp", ["-a", "--reflink=auto", "-T", "--", from, to], { signal });
        await run("sync", ["-f", "--", to], { signal });
      } catch (error) {
        await clear(to, wasThere);
        throw error;
      }
    },
  };
}

async function probeReflinks(stateDir: string): Promise<boolean> {
  let place: string | undefined;
  try {
    place = await mkdtemp(path.join(stateDir, probePrefix));
    const from = path.join(place, "from");
    const file = await open(from, "wx");
    // Files of less than a block are kept in the inode by some: there would be nothing to share.
    await file.writeFile(Buffer.alloc(1 << 16, 1)).finally(() => file.close());
    await copyFile(from, path.join(place, "to"), constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch (error) {
    if (cannotClone.has(errnoOf(error) ?? "")) return false;
    throw hostFailure(`try whether files of ${stateDir} can be reflinked`, error);
  } finally {
    if (place !== undefined) await rm(place, { recursive: true, force: true });
  }
}

async function requireAbsent(to: string): Promise<void> {
  if ((await lstat(to).catch(notThere)) === false) return;
  throw new DriverError("INTERNAL", `cannot copy to ${to}: it is there already, and nothing is overwritten`);
}

/** A copy goes to where nothing is, or into an empty directory, which then gets the owner, mode and times of the original. */
async function requireAbsentOrEmpty(to: string): Promise<boolean> {
  const entries = await readdir(to).catch(notThere);
  if (entries === false) return false;
  if (entries.length === 0) return true;
  throw new DriverError("INTERNAL", `cannot copy to ${to}: it is not empty, and nothing is overwritten`);
}

function notThere(error: unknown): false {
  if (errnoOf(error) === "ENOENT") return false;
  throw error;
}

/** As it was before: absent, or empty. What cannot be removed is for the caller, whose own place it is. */
async function clear(to: string, keep: boolean): Promise<void> {
  const doomed = keep ? (await readdir(to).catch(() => [])).map((name) => path.join(to, name)) : [to];
  for (const it of doomed) await rm(it, { recursive: true, force: true }).catch(() => undefined);
}
