/**
 * Freezing filesystems of images for the time of a copy.
 *
 * F1 Only a filesystem on a loop device is frozen: fsfreeze of a path that is not mounted (any more) would freeze the host's own.
 * F2 Whatever was frozen, or may have been, is thawed before the call settles, however it ends.
 * F3 What somebody else has frozen is not thawed by `during`.
 */
import { DriverError } from "../domain/driver-error.ts";
import type { Freezer, MountEntry, Mounts } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { messageOf } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";

/** The major number of loop devices. */
const loopMajor = "7:";

export function createFreezer({ run, mounts }: { readonly run: RunTool; readonly mounts: Mounts }): Freezer {
  const mountedAt = async (place: string) => (await mounts.table()).findLast((entry) => entry.mountPoint === place);
  const isImage = (top: MountEntry | undefined) => top?.dev.startsWith(loopMajor) === true;

  const requireImage = async (mountPoint: string): Promise<string> => {
    const place = await canonicalPath(mountPoint);
    const top = await mountedAt(place);
    if (isImage(top)) return place;
    throw new DriverError(
      "FAILED_PRECONDITION",
      `${place} is not frozen: ${top === undefined ? "nothing is mounted there" : `${top.source} there is no loop device`}; unstage the volume and stage it again`,
    ); // F1
  };

  const freeze = async (place: string, signal: AbortSignal): Promise<void> => {
    const { code, stderr } = await run("fsfreeze", ["--freeze", "--", place], { signal, judges: [0, 1] });
    if (code === 0) return;
    throw new FreezeRefused(
      /busy/i.test(stderr)
        ? `${place} is frozen already, by somebody else: wait for the end of that, or fsfreeze -u ${place}`
        : `${place} cannot be frozen: ${stderr}`,
    );
  };

  const thawOne = async (place: string, signal: AbortSignal): Promise<void> => {
    const { code, stderr } = await run("fsfreeze", ["--unfreeze", "--", place], { signal, judges: [0, 1] });
    // Not frozen.
    if (code === 0 || /Invalid argument/.test(stderr)) return;
    throw new DriverError(
      "INTERNAL",
      `${place} cannot be thawed: ${stderr}; its writers hang until fsfreeze -u ${place}`,
    );
  };

  return {
    during: async (mountPoints, act, signal) => {
      const places: string[] = [];
      for (const mountPoint of mountPoints) places.push(await requireImage(mountPoint));
      const frozen: string[] = [];
      try {
        for (const place of new Set(places)) {
          // Most of it is written before the writers have to wait.
          await run("sync", ["-f", "--", place], { signal });
          await requireImage(place);
          frozen.push(place);
          await freeze(place, signal).catch((error: unknown) => {
            if (error instanceof FreezeRefused) frozen.pop(); // F3
            throw error;
          });
        }
        return await act();
      } finally {
        await thawAll(frozen, thawOne); // F2
      }
    },
    thaw: async (mountPoint, signal) => {
      const place = await canonicalPath(mountPoint);
      if (isImage(await mountedAt(place))) await thawOne(place, signal); // F1
    },
  };
}

/** All of them, also when one fails; without a deadline, since a workload waits behind each. */
async function thawAll(
  places: readonly string[],
  thawOne: (place: string, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failures: string[] = [];
  for (const place of [...places].reverse())
    await thawOne(place, new AbortController().signal).catch((error: unknown) => failures.push(messageOf(error)));
  if (failures.length > 0) throw new DriverError("INTERNAL", failures.join("; "));
}

/** fsfreeze said no: it is certain that this call froze nothing. */
class FreezeRefused extends DriverError {
  constructor(message: string) {
    super("FAILED_PRECONDITION", message);
  }
}
