import { type DirectoryLock, DirectoryTaken, takeDirectoryLock } from "@holdfast/shared/lock/directory-lock";

/** One agent per state directory: two would write one journal. */
export async function takeStateLock(directory: string): Promise<DirectoryLock> {
  try {
    return await takeDirectoryLock(directory);
  } catch (error) {
    if (!(error instanceof DirectoryTaken)) throw error;
    const holder = error.pid === undefined ? "" : ` (pid ${error.pid})`;
    throw new Error(`another agent runs on the state directory ${directory}${holder}: stop it first`, { cause: error });
  }
}
