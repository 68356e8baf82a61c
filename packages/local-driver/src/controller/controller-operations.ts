import type { DriverSettings, MetadataOperations, SnapshotOperations, VolumeOperations } from "../operations.ts";
import type { Host } from "../ports.ts";
import { createAttachments } from "./attachments.ts";
import { createCapacity } from "./capacity.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { createCreateVolume } from "./create-volume.ts";
import { createCutSnapshots } from "./cut-snapshots.ts";
import { createDeleteVolume } from "./delete-volume.ts";
import { createExpandVolume } from "./expand-volume.ts";
import { createGroupSnapshots } from "./group-snapshots.ts";
import { inTheNameOf } from "./in-the-name-of.ts";
import { createMetadataOperations } from "./metadata-operations.ts";
import { createModifyVolume } from "./modify-volume.ts";
import { createRoom } from "./room.ts";
import { createSingleSnapshots } from "./single-snapshots.ts";
import { createValidateCapabilities } from "./validate-capabilities.ts";
import { createVolumeViews } from "./volume-views.ts";

export interface ControllerOperations {
  readonly volumes: VolumeOperations;
  readonly snapshots: SnapshotOperations;
  readonly metadata: MetadataOperations;
}

const named = (kind: string) => (input: { readonly name: string }) => `${kind} ${JSON.stringify(input.name)}`;
const ided = (kind: string) => (id: string) => `${kind} ${id}`;

/** All of the controller's side. One of each process: what is promised to volumes being made is known in one place. */
export function createControllerOperations(options: {
  readonly host: Host;
  readonly settings: DriverSettings;
}): ControllerOperations {
  const { host, settings } = options;
  const parts: ControllerParts = { ...options, room: createRoom(options), cut: createCutSnapshots(host) };
  const views = createVolumeViews(parts);
  const attachments = createAttachments(parts);
  const single = createSingleSnapshots(parts);
  const groups = createGroupSnapshots(parts);
  const metadata = createMetadataOperations(parts);

  const told = <A extends readonly unknown[], R>(
    operation: string,
    subject: (first: A[0]) => string,
    act: (...args: A) => Promise<R>,
  ) => inTheNameOf(operation, subject, settings.nodeId, act);
  /** By its name too, when there is one to be read. */
  const volume = (id: string): string => {
    const found = host.state.volumes.all().find((each) => each.id === id);
    return found === undefined ? `volume ${id}` : `volume ${id} (${JSON.stringify(found.name)})`;
  };

  return {
    volumes: {
      createVolume: told("CreateVolume", named("volume"), createCreateVolume(parts)),
      deleteVolume: told("DeleteVolume", volume, createDeleteVolume(parts)),
      getVolume: told("ControllerGetVolume", volume, views.getVolume),
      listVolumes: told("ListVolumes", () => "volumes", views.listVolumes),
      validateCapabilities: told("ValidateVolumeCapabilities", volume, createValidateCapabilities(parts)),
      capacity: told("GetCapacity", () => "volumes", createCapacity(parts)),
      expandVolume: told("ControllerExpandVolume", volume, createExpandVolume(parts)),
      modifyVolume: told("ControllerModifyVolume", volume, createModifyVolume(parts)),
      attach: told("ControllerPublishVolume", volume, attachments.attach),
      detach: told("ControllerUnpublishVolume", volume, attachments.detach),
    },
    snapshots: {
      createSnapshot: told("CreateSnapshot", named("snapshot"), single.createSnapshot),
      deleteSnapshot: told("DeleteSnapshot", ided("snapshot"), single.deleteSnapshot),
      getSnapshot: told("GetSnapshot", ided("snapshot"), single.getSnapshot),
      listSnapshots: told("ListSnapshots", () => "snapshots", single.listSnapshots),
      createGroup: told("CreateVolumeGroupSnapshot", named("group"), groups.createGroup),
      deleteGroup: told("DeleteVolumeGroupSnapshot", ided("group"), groups.deleteGroup),
      getGroup: told("GetVolumeGroupSnapshot", ided("group"), groups.getGroup),
    },
    metadata: {
      allocated: told("GetMetadataAllocated", ({ snapshotId }) => `snapshot ${snapshotId}`, metadata.allocated),
      delta: told(
        "GetMetadataDelta",
        ({ baseSnapshotId, targetSnapshotId }) => `snapshots ${baseSnapshotId} and ${targetSnapshotId}`,
        metadata.delta,
      ),
    },
  };
}
