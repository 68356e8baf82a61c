import { DriverError } from "../domain/driver-error.ts";
import type { SnapshotRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";

/**
 * Which snapshots count. The record of a group is its commit point: members are stored before it and deleted after it, so those of a
 * group that does not stand are remains of a call that failed, and nobody was ever told of them.
 */
export interface CutSnapshots {
  all(): readonly SnapshotRecord[];
  get(id: string): SnapshotRecord | undefined;
  /** NOT_FOUND when there is none. */
  known(id: string): SnapshotRecord;
  /** Whether the group exists, be it with a record that cannot be read. */
  groupStands(id: string): boolean;
  /** Snapshots of groups that do not stand. */
  remains(): readonly SnapshotRecord[];
}

export function createCutSnapshots({ state }: Pick<Host, "state">): CutSnapshots {
  const groupStands = (id: string): boolean =>
    state.broken.some((each) => each.kind === "group" && each.id === id) || state.groups.get(id) !== undefined;
  const counts = ({ groupId }: SnapshotRecord): boolean => groupId === undefined || groupStands(groupId);
  const get = (id: string): SnapshotRecord | undefined => {
    const snapshot = state.snapshots.get(id);
    return snapshot !== undefined && counts(snapshot) ? snapshot : undefined;
  };
  return {
    all: () => state.snapshots.all().filter(counts),
    get,
    known: (id) => {
      const snapshot = get(id);
      if (snapshot === undefined)
        throw new DriverError("NOT_FOUND", `there is no snapshot ${id}; it was deleted, or never made`);
      return snapshot;
    },
    groupStands,
    remains: () => state.snapshots.all().filter((snapshot) => !counts(snapshot)),
  };
}
