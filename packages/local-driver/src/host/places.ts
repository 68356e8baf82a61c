import type { Stats } from "node:fs";
import { lstat, mkdir, open, rmdir, unlink } from "node:fs/promises";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { Places } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { errnoOf, hostFailure } from "./host-failure.ts";

/** Nobody passes through a place before something is mounted on it; then the mounted root's own mode counts. */
const directoryMode = 0o750;
const fileMode = 0o640;

/** Our volumes are local (ext4, xfs, directories of the host), so that looking at a mounted root cannot wait for a network. */
export function createPlaces(): Places {
  return {
    makeDirectory: (place) =>
      make(place, () => mkdir(place, directoryMode), {
        isRight: (found) => found.isDirectory(),
        wanted: "a directory",
      }),
    makeFile: (place) =>
      make(place, async () => (await open(place, "wx", fileMode)).close(), {
        // With a device node bound onto it, it shows as that.
        isRight: (found) => found.isBlockDevice() || (found.isFile() && found.size === 0),
        wanted: "an empty file",
      }),
    remove: async (place) => {
      try {
        await removeEmpty(place);
      } catch (error) {
        throw removalFailure(place, error);
      }
    },
    exists: async (place) => (await look(place)) !== undefined,
    resolve: canonicalPath,
  };
}

async function make(
  place: string,
  act: () => Promise<unknown>,
  { isRight, wanted }: { readonly isRight: (found: Stats) => boolean; readonly wanted: string },
): Promise<void> {
  try {
    await act();
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT")
      throw new DriverError(
        "FAILED_PRECONDITION",
        `cannot make ${place}: its parent ${path.dirname(place)} is not there; the container orchestrator makes it`,
        { cause: error },
      );
    const found = errno === "EEXIST" ? await look(place) : undefined;
    if (found === undefined) throw hostFailure(`make ${place}`, error);
    if (!isRight(found))
      throw new DriverError(
        "FAILED_PRECONDITION",
        `${place} is there and is not ${wanted}; nothing was changed; move it away and repeat the call`,
      );
  }
}

async function look(place: string): Promise<Stats | undefined> {
  try {
    return await lstat(place);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT" || errno === "ENOTDIR") return undefined;
    throw hostFailure(`look at ${place}`, error);
  }
}

/** Never recursive: a place whose mount is unexpectedly still there holds a workload's data. */
async function removeEmpty(place: string): Promise<void> {
  try {
    await rmdir(place);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return;
    if (errnoOf(error) !== "ENOTDIR") throw error;
    const found = await look(place);
    if (found === undefined) return;
    if (!found.isFile() || found.size !== 0)
      throw new DriverError(
        "FAILED_PRECONDITION",
        `${place} is not removed: it is not an empty file of the driver's making; look at it and remove it by hand`,
      );
    await unlink(place);
  }
}

function removalFailure(place: string, error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === "EBUSY")
    return new DriverError(
      "FAILED_PRECONDITION",
      `${place} is not removed: something is mounted on it; unmount it first`,
    );
  if (errno === "ENOTEMPTY" || errno === "EEXIST")
    return new DriverError(
      "FAILED_PRECONDITION",
      `${place} is not removed: it is not empty, and nothing of it is deleted; look at it and empty it by hand`,
    );
  return hostFailure(`remove ${place}`, error);
}
