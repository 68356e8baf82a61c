import { openSync } from "node:fs";

/** Of /proc: what belonged to a process that has ended is gone. The descriptor is the caller's to close. */
export function openedOrGone(file: string): number | undefined {
  try {
    return openSync(file, "r");
  } catch {
    return undefined;
  }
}
