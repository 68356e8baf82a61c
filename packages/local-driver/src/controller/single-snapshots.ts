import { differing } from "../domain/differences.ts";
import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import { pageOf } from "../domain/page.ts";
import { parseSnapshotParameters } from "../domain/parameters.ts";
import type { SnapshotRecord } from "../domain/records.ts";
import type { SnapshotOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";
import { takeSnapshots } from "./take-snapshots.ts";

type Single = Pick<SnapshotOperations, "createSnapshot" | "deleteSnapshot" | "getSnapshot" | "listSnapshots">;

export function createSingleSnapshots({ host, room, cut }: Pick<ControllerParts, "host" | "room" | "cut">): Single {
  return {
    createSnapshot: async ({ name, volumeId, parameters }, signal) => {
      const { value, violations } = parseSnapshotParameters(parameters);
      if (violations.length > 0) throw new DriverError("INVALID_ARGUMENT", violations.join("; "));
      const existing = host.state.snapshots.byName(name);
      if (existing !== undefined) return sameSnapshot(existing, volumeId, value.own);

      const volume = knownVolume(host, volumeId);
      const how = { live: value.live, parameters: value.own, groupId: undefined };
      const [taken] = await takeSnapshots({ host, room }, [{ volume, name }], how, signal);
      if (taken === undefined) throw new DriverError("INTERNAL", `no snapshot was made of ${nameOf(volume)}`);
      return taken;
    },

    deleteSnapshot: async (id) => {
      const snapshot = host.state.snapshots.get(id);
      // "Never for one that was made with a group_snapshot_id": the group would be left with a hole.
      if (snapshot?.groupId !== undefined && cut.groupStands(snapshot.groupId))
        throw new DriverError(
          "INVALID_ARGUMENT",
          `it belongs to group ${snapshot.groupId}; delete that by DeleteVolumeGroupSnapshot`,
        );
      await host.state.snapshots.remove(id);
    },

    getSnapshot: async (id) => cut.known(id),

    listSnapshots: async (page, { volumeId, snapshotId }) => {
      // A record that cannot be read is refused here too: an empty list would say that the snapshot is gone.
      const named = snapshotId === "" ? undefined : [cut.get(snapshotId)];
      const some = (named ?? cut.all()).filter((each) => each !== undefined);
      const wanted = some.filter((each) => volumeId === "" || each.volumeId === volumeId);
      return pageOf("snapshot", wanted, page);
    },
  };
}

function sameSnapshot(
  existing: SnapshotRecord,
  volumeId: string,
  parameters: Readonly<Record<string, string>>,
): SnapshotRecord {
  const found = [
    ...(existing.volumeId === volumeId ? [] : [`volume: it is of ${existing.volumeId}, and not of ${volumeId}`]),
    ...(existing.groupId === undefined ? [] : [`group: it belongs to group ${existing.groupId}`]),
    ...differing("parameter", existing.parameters, parameters),
  ];
  if (found.length === 0) return existing;
  throw new DriverError(
    "ALREADY_EXISTS",
    `${nameOf(existing)} has this name and differs: ${found.join("; ")}; ask with its arguments, or under another name`,
  );
}
