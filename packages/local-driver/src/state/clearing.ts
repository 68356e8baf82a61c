/**
 * Deletes what no record stands for: what was never finished, and what was removed.
 *
 * L1 Nothing below which something is mounted is descended: it may be anything, of anybody. It is left, with a warning.
 * L2 A failure is no failure of the caller: what is left is tried again at the next start.
 */
import path from "node:path";
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createLimiter } from "@holdfast/shared/async/limiter";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { messageOf } from "../host/host-failure.ts";
import type { Mounts } from "../ports.ts";
import type { RemoveTree } from "./remove-tree.ts";
import type { Entry, StateFiles } from "./state-files.ts";

export interface Clearing {
  /** Resolves when it is gone, or left for the next start. */
  clear(place: string): Promise<void>;
  /** Later, and never many at once. */
  soon(place: string): void;
  /** All that is in this directory, before the first call is served; long ones tell how far they are. */
  empty(directory: string, signal: AbortSignal): Promise<void>;
  settled(): Promise<void>;
  /** Ends what runs; the next start goes on with it. */
  stop(): Promise<void>;
}

export interface ClearingParts {
  readonly files: StateFiles;
  readonly removeTree: RemoveTree;
  readonly mounts: Pick<Mounts, "table">;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Each may hold a thread of the pool that all file calls share. */
const atOnce = 2;
const reportEveryMs = 5_000;

export function createClearing({ files, removeTree, mounts, log, clock }: ClearingParts): Clearing {
  const stopped = new AbortController();
  const limiter = createLimiter({ name: "deletions", limit: atOnce, maxQueued: Number.POSITIVE_INFINITY });
  const running = new Set<Promise<void>>();

  const clear = async (place: string, signal = stopped.signal): Promise<void> => {
    try {
      const below = (await mounts.table()).map((it) => it.mountPoint).filter((it) => isWithin(it, place));
      if (below.length > 0) {
        log.warn("left as it is, since something is mounted in it: unmount that, and restart the driver to delete it", {
          directory: place,
          mounted: below,
        });
        return; // L1
      }
      await removeTree(place, signal);
    } catch (error) {
      if (signal.aborted) return;
      log.warn("could not be deleted: it is tried again at the next start", {
        directory: place,
        why: messageOf(error),
      }); // L2
    }
  };

  const settled = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running);
  };

  return {
    clear: (place) => clear(place),
    soon: (place) => {
      const work = limiter
        .run(stopped.signal, () => clear(place))
        // Stopped while it waited.
        .catch(() => undefined)
        .finally(() => running.delete(work));
      running.add(work);
    },
    empty: async (directory, signal) => {
      const entries = await files.list(directory);
      if (entries.length === 0) return;
      const began = clock.monotonic();
      const progress = linkSignals(signal);
      let done = 0;
      log.info("deleting what an earlier life left", { directory, entries: entries.length });
      const report = () =>
        log.info("still deleting what an earlier life left", { directory, done, of: entries.length });
      every(reportEveryMs, report, { signal: progress.signal, clock }).catch(() => undefined);
      try {
        for (const entry of entries) {
          signal.throwIfAborted();
          await clearEntry(path.join(directory, entry.name), entry, { files, clear: (at) => clear(at, signal) });
          done += 1;
        }
      } finally {
        progress.abort(new Error("the deletion ended"));
      }
      signal.throwIfAborted();
      const left = (await files.list(directory)).length;
      const ms = Math.round(clock.monotonic() - began);
      log.info("deleted what an earlier life left", { directory, left, ms });
    },
    settled,
    stop: async () => {
      stopped.abort(new Error("the driver stops"));
      await settled();
    },
  };
}

async function clearEntry(
  place: string,
  { kind }: Entry,
  { files, clear }: Pick<Clearing, "clear"> & { readonly files: StateFiles },
): Promise<void> {
  if (kind === "directory") await clear(place);
  // A mount point can be a file too; unlink refuses that one (EBUSY).
  else await files.unlink(place).catch(() => undefined);
}

/** The mount table appends this to a mount point that was deleted under it in another namespace. */
const deleted = "//deleted";

export function isWithin(mountPoint: string, place: string): boolean {
  const at = mountPoint.endsWith(deleted) ? mountPoint.slice(0, -deleted.length) : mountPoint;
  return at === place || at.startsWith(`${place}/`);
}
