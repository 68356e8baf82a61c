/**
 * How snapshots and groups stand, counted for /metrics as volumes are: what is owed and what is blocked has an index each. A snapshot that
 * came with a group is counted with it.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { silentGatesOf } from "../domain/bar-block.ts";
import { type CutKind, type CutState, cutKinds, cutStates } from "../domain/snapshot/snapshot.ts";
import { cutBlocks } from "../domain/snapshot/snapshot-bar.ts";
import { type BlockedCount, countBlocked, countBounded, countOnce } from "./bounded-count.ts";
import type { CutRecords } from "./snapshot-records.ts";

export interface SnapshotStanding {
  /** Those on which something is owed. */
  readonly owed: Readonly<Record<CutKind, ReadonlyMap<CutState, number>>>;
  /** Of those, calls of which an attempt has no certain answer. */
  readonly uncertain: number;
  /** By reason. */
  readonly blocked: ReadonlyMap<string, BlockedCount>;
  /** Plugin instances that bars wait for and whose gates give no answer. */
  readonly silentGates: ReadonlySet<string>;
  readonly partial: boolean;
}

export interface SnapshotStandingDeps {
  readonly cuts: Pick<CutRecords, "list">;
  readonly clock: Pick<Clock, "monotonic">;
  /** At most so many records a count. */
  readonly most?: number;
}

const none = (): Map<CutState, number> => new Map(cutStates.map((state) => [state, 0]));

export const createSnapshotStanding = ({ cuts, clock, most = 20_000 }: SnapshotStandingDeps) => {
  const pagesOf =
    (index: `${CutKind}-${"unsettled" | "blocked"}`) => async (page: Parameters<CutRecords["list"]>[2]) => {
      const { cuts: items, next } = await cuts.list(index, "all", page);
      return { items, next };
    };
  const count = async (): Promise<SnapshotStanding> => {
    const owed = { snapshot: none(), group: none() };
    const blocked = new Map<string, BlockedCount>();
    const silentGates = new Set<string>();
    let uncertain = 0;
    let whole = true;
    for (const kind of cutKinds) {
      const all = await countBounded(most, pagesOf(`${kind}-unsettled`), ({ record: { state, intent } }) => {
        owed[kind].set(state, (owed[kind].get(state) ?? 0) + 1);
        if (intent?.uncertainSince !== undefined) uncertain += 1;
      });
      const allBlocked = await countBounded(most, pagesOf(`${kind}-blocked`), ({ record }) => {
        for (const one of cutBlocks(record)) countBlocked(blocked, one);
        for (const gate of silentGatesOf(record)) silentGates.add(gate);
      });
      whole &&= all && allBlocked;
    }
    return { owed, uncertain, blocked, silentGates, partial: !whole };
  };
  return { now: countOnce(clock, count) };
};
