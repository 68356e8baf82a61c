/**
 * What the agent does to its host without an order of its own.
 *
 * U1 No claim is given back but on an order, also not in quarantine: a controller whose store has lost writes may take a running workload
 *    for one that was fenced.
 * U2 A mount that nothing explains is taken away only where the settings say so, only after a controller has answered, and
 *    only if two looks have shown the very same mount; never lazily, so that one in use stays.
 * U3 It is looked at once more in the lane of the volume to which the place belongs: a permit may have explained it meanwhile, and
 *    what is at the path then would be the publication of a workload.
 */

import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Orphan } from "../domain/answer-types.ts";
import type { HostPaths } from "../domain/paths.ts";
import type { KillableChildren, Ledger, MountTable } from "../ports.ts";
import { findOrphans } from "./inventory.ts";
import { type Lanes, unlessBusy } from "./unless-busy.ts";

export interface Upkeep {
  tick(): Promise<void>;
  /** Ticks until its signal is aborted. */
  start(intervalMs: number): void;
}

export interface UpkeepOptions {
  readonly ledger: Ledger;
  readonly volumes: Lanes;
  readonly mounts: Pick<MountTable, "look">;
  readonly paths: HostPaths;
  readonly children: KillableChildren;
  /** A controller has answered since the start. */
  readonly registered: () => boolean;
  readonly orphans: "report" | "unmount";
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const busyMs = 1_000;

export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { ledger, volumes, mounts, paths, children, registered, orphans, clock, log, signal } = options;
  let seenBefore: ReadonlySet<number> = new Set();

  /** U2 */
  const takeAway = async (): Promise<void> => {
    const found = findOrphans(await mounts.look(false), paths, ledger.volumes());
    const again = found.filter(({ mountId }) => seenBefore.has(mountId));
    seenBefore = new Set(found.map(({ mountId }) => mountId));
    // The newest lie on top.
    for (const orphan of again.toReversed()) await inLane(orphan.path, () => takeOne(orphan));
  };

  const takeOne = async ({ path, mountId }: Orphan): Promise<void> => {
    const view = await mounts.look(false);
    const stillThere = findOrphans(view, paths, ledger.volumes()).some((one) => one.mountId === mountId);
    // What was mounted over it is what umount(8) would take.
    if (!stillThere || view.at(path).at(-1)?.id !== mountId) return; // U3
    const end = await children.run(path, "umount", ["--no-canonicalize", path]);
    const gone = end.kind === "ended" && end.code === 0;
    const fields = { path, mount: mountId, detail: end.kind === "ended" ? end.said : "it did not end in time" };
    if (gone) log.warn("a mount that nothing explains was taken away", { path, mount: mountId });
    else log.warn("a mount that nothing explains stays", fields);
  };

  /** U3. A volume that is busy is left for the next look: a call that hangs holds up nothing else. */
  const inLane = async (path: string, act: () => Promise<void>): Promise<void> => {
    const publish = paths.publishOf(path);
    if (publish === undefined) return act();
    await unlessBusy(volumes, publish, { clock, signal, waitMs: busyMs }, act);
  };

  const tick = async (): Promise<void> => {
    if (ledger.damage !== undefined) return;
    if (orphans === "unmount" && registered()) await takeAway();
  };

  return {
    tick,
    start(intervalMs) {
      const onError = (error: unknown): void => {
        if (!signal.aborted) log.error("the host could not be looked after", { error });
      };
      // Ends with the signal, and with nothing else.
      every(intervalMs, tick, { signal, clock, jitter: 0.1, onError }).catch(() => undefined);
    },
  };
}
