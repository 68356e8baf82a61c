/**
 * Wakes when something happened in a directory. The kernel's events make it quick, a slow poll makes it right: events are
 * lost when the directory is replaced or does not exist yet, and never prove anything by themselves.
 */
import { watch } from "node:fs";
import { stat } from "node:fs/promises";
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { isAbort } from "@holdfast/shared/async/signals";

export interface DirectoryWakeOptions {
  readonly dir: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly pollMs: number;
  /** May be called for nothing, and more than once for one event. */
  readonly wake: () => void;
}

export function watchDirectory({ dir, clock, signal, pollMs, wake }: DirectoryWakeOptions): void {
  let watcher: ReturnType<typeof watch> | undefined;
  let watched: string | undefined;

  const drop = (): void => {
    watcher?.close();
    watcher = undefined;
    watched = undefined;
  };

  /** The watch holds on to an inode; when the path leads to another one, it has to be made anew. */
  const rewatch = async (): Promise<void> => {
    const found = await stat(dir, { bigint: true }).catch(() => undefined);
    // The inode's number alone is not enough: a directory made anew often gets the one that was just given back.
    const identity = found && `${found.dev}:${found.ino}:${found.birthtimeNs}`;
    if (identity === watched || signal.aborted) return;
    drop();
    if (identity === undefined) return;
    try {
      watcher = watch(dir, { persistent: false }, wake);
      watcher.on("error", drop);
      watched = identity;
    } catch {
      // Out of watches, or gone again: the poll goes on and is enough.
      drop();
    }
  };

  const tick = async (): Promise<void> => {
    await rewatch();
    wake();
  };

  signal.addEventListener("abort", drop, { once: true });
  every(pollMs, tick, { signal, clock, immediate: true, onError: wake }).catch((error: unknown) => {
    if (!isAbort(error) && !signal.aborted) throw error;
  });
}
