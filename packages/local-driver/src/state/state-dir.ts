import { DirectoryTaken, takeDirectoryLock } from "@holdfast/shared/lock/directory-lock";
import { DriverError } from "../domain/driver-error.ts";
import { hostFailure, messageOf } from "../host/host-failure.ts";
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
  const lock = await takeDirectoryLock(path).catch((error: unknown) => {
    throw new DriverError("FAILED_PRECONDITION", whyNotLocked(path, error), { cause: error });
  });
  return { path, release: lock.release };
}

function whyNotLocked(path: string, error: unknown): string {
  if (!(error instanceof DirectoryTaken)) return messageOf(error);
  const holder = error.pid === undefined ? "" : ` (pid ${error.pid})`;
  return `another driver${holder} runs on the state directory ${path}: stop it first`;
}
