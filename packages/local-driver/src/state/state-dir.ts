import { takeStateDirectory } from "@holdfast/shared/lock/state-directory";
import { hostFailure } from "../host/host-failure.ts";
import { checkLayout, layoutOf } from "./layout.ts";
import { createNodeFiles } from "./node-files.ts";
import type { StateFiles } from "./state-files.ts";

/** A state directory that no other process has, while it is held. */
export interface StateDir {
  /** As the kernel spells it, and so the mount table and /sys too. */
  readonly path: string;
  release(): void;
}

/**
 * Makes sure that the directory is this driver's or may become so, and that no other driver runs on it. Nothing of it is touched before
 * that. What a killed life left running (endStrayChildren, recoverHost) comes next, and openState then.
 */
export async function takeStateDir(
  dir: string,
  { files = createNodeFiles() }: { readonly files?: Pick<StateFiles, "openRoot" | "read" | "list"> } = {},
): Promise<StateDir> {
  const path = await files.openRoot(dir).catch((error: unknown) => {
    throw hostFailure(`open the state directory ${dir}`, error);
  });
  await checkLayout(layoutOf(path), files);
  const lock = await takeStateDirectory(path, "driver");
  return { path, release: lock.release };
}
