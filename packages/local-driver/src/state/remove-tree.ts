import { readdir, rmdir, unlink } from "node:fs/promises";
import path from "node:path";
import type { RunTool } from "../host/run-tool.ts";
import { unlessGone } from "./node-files.ts";

/**
 * Deletes a directory with all that is in it, on its own filesystem alone. No error when it is not there. The caller knows that nothing
 * is mounted below.
 */
export type RemoveTree = (directory: string, signal: AbortSignal) => Promise<void>;

export function createRemoveTree({ run }: { readonly run: RunTool }): RemoveTree {
  return async (directory, signal) => {
    const entries = await readdir(directory, { withFileTypes: true }).catch(unlessGone);
    if (entries === undefined) return;
    if (entries.some((each) => each.isDirectory())) {
      // Not in this process: rm walks by open directories, so nobody who still has one open can lead it elsewhere by a symbolic link; and
      // it can be killed in the middle of a million files.
      await run("rm", ["-rf", "--one-file-system", "--", directory], { signal });
      return;
    }
    for (const { name } of entries) {
      signal.throwIfAborted();
      await unlink(path.join(directory, name)).catch(unlessGone);
    }
    await rmdir(directory).catch(unlessGone);
  };
}
