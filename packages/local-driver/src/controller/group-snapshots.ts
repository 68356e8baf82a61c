/**
 * Group snapshots: all members of one moment, or none.
 *
 * G1 The record of the group is stored last: a group that can be seen is whole.
 * G2 It is deleted first: from then on no member can be seen, and whoever repeats the call deletes the rest.
 * G3 Members of a group that does not stand are deleted by the next call that makes a group, or at the next start.
 */
import { differing } from "../domain/differences.ts";
import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import { parseSnapshotParameters } from "../domain/parameters.ts";
import type { GroupRecord, SnapshotRecord } from "../domain/records.ts";
import type { SnapshotOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";
import { takeSnapshots } from "./take-snapshots.ts";

type Groups = Pick<SnapshotOperations, "createGroup" | "deleteGroup" | "getGroup">;

export function createGroupSnapshots({ host, room, cut }: Pick<ControllerParts, "host" | "room" | "cut">): Groups {
  /** Ids of groups under way: their members do not count yet, and are no remains. */
  const making = new Set<string>();

  const membersOf = (groupId: string): readonly SnapshotRecord[] =>
    host.state.snapshots.all().filter((each) => each.groupId === groupId);

  const removeMembers = async (groupId: string): Promise<void> => {
    for (const member of membersOf(groupId)) await host.state.snapshots.remove(member.id);
  };

  const whole = (group: GroupRecord) => ({ group, snapshots: group.snapshotIds.map((id) => cut.known(id)) });

  return {
    createGroup: async ({ name, volumeIds, parameters }, signal) => {
      const { value, violations } = parseSnapshotParameters(parameters);
      if (violations.length > 0) throw new DriverError("INVALID_ARGUMENT", violations.join("; "));
      const existing = host.state.groups.byName(name);
      if (existing !== undefined) return whole(sameGroup(existing, volumeIds, value.own));

      const volumes = volumeIds.map((id) => knownVolume(host, id));
      for (const { id, groupId } of cut.remains())
        if (groupId !== undefined && !making.has(groupId)) await host.state.snapshots.remove(id); // G3

      const groupId = host.newId();
      making.add(groupId);
      try {
        // No caller can choose such a name by chance: the id of the group is new.
        const pictures = volumes.map((volume) => ({ volume, name: `group-${groupId}-of-${volume.id}` }));
        const how = { live: value.live, parameters: value.own, groupId };
        const snapshots = await takeSnapshots({ host, room }, pictures, how, signal);
        const group: GroupRecord = {
          kind: "group",
          id: groupId,
          name,
          createdAt: snapshots[0]?.createdAt ?? host.clock.now(),
          parameters: value.own,
          volumeIds,
          snapshotIds: snapshots.map(({ id }) => id),
        };
        await host.state.groups.add(group, async () => undefined); // G1
        return { group, snapshots };
      } catch (error) {
        // What cannot be deleted now is not seen by anyone, and goes later. (G3)
        if (!cut.groupStands(groupId)) await removeMembers(groupId).catch(() => undefined);
        throw error;
      } finally {
        making.delete(groupId);
      }
    },

    deleteGroup: async (id, snapshotIds) => {
      const group = host.state.groups.get(id);
      if (group !== undefined) {
        mustBeMembers(group, snapshotIds);
        await host.state.groups.remove(id); // G2
      }
      await removeMembers(id);
    },

    getGroup: async (id, snapshotIds) => {
      const group = host.state.groups.get(id);
      if (group === undefined)
        throw new DriverError("NOT_FOUND", `there is no group ${id}; it was deleted, or never made`);
      mustBeMembers(group, snapshotIds);
      return whole(group);
    },
  };
}

const sameIds = (a: readonly string[], b: readonly string[]): boolean => {
  const [left, right] = [new Set(a), new Set(b)];
  return left.size === right.size && left.isSubsetOf(right);
};

function mustBeMembers(group: GroupRecord, snapshotIds: readonly string[]): void {
  if (sameIds(group.snapshotIds, snapshotIds)) return;
  throw new DriverError(
    "INVALID_ARGUMENT",
    `snapshot_ids ${snapshotIds.join(", ")} are not those of ${nameOf(group)}: it has ${group.snapshotIds.join(", ")}`,
  );
}

function sameGroup(
  existing: GroupRecord,
  volumeIds: readonly string[],
  parameters: Readonly<Record<string, string>>,
): GroupRecord {
  const found = [
    ...(sameIds(existing.volumeIds, volumeIds)
      ? []
      : [`volumes: it is of ${existing.volumeIds.join(", ")}, and not of ${volumeIds.join(", ")}`]),
    ...differing("parameter", existing.parameters, parameters),
  ];
  if (found.length === 0) return existing;
  throw new DriverError(
    "ALREADY_EXISTS",
    `${nameOf(existing)} has this name and differs: ${found.join("; ")}; ask with its arguments, or under another name`,
  );
}
