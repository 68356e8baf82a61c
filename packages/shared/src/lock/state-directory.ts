import { HoldfastError } from "../errors/holdfast-error.ts";
import { type DirectoryLock, DirectoryTaken, takeDirectoryLock } from "./directory-lock.ts";

/** One service per state directory: two would write one journal. `who` is what such a service is called. */
export async function takeStateDirectory(directory: string, who: string): Promise<DirectoryLock> {
  try {
    return await takeDirectoryLock(directory);
  } catch (error) {
    if (!(error instanceof DirectoryTaken)) throw error;
    const holder = error.pid === undefined ? "" : ` (pid ${error.pid})`;
    throw new HoldfastError({
      kind: "precondition",
      reason: "STATE_DIR_IN_USE",
      message: `another ${who}${holder} runs on the state directory ${directory}: stop it first, or give this one its own`,
      metadata: { path: directory },
      cause: error,
    });
  }
}
