import { randomUUID } from "node:crypto";
import type { RecordWrite } from "@holdfast/controller/domain/store-types";
import { attachmentRecord, claimRecord, volumeRecord } from "@holdfast/controller/domain/testing/record-fixtures";
import type { VolumeCapability, VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import type { Store } from "@holdfast/controller/ports";
import { encodeVolume } from "@holdfast/controller/records/volume/volume-codec";

export interface ScaleSize {
  readonly volumes: number;
  readonly nodes: number;
}

export const scalePlugin = "csi.example";
/** Volumes that nobody has: what is claimed and released. */
export const freeVolumes = 64;
export const freeName = (index: number): string => `free-${index % freeVolumes}`;
export const takenName = (index: number): string => `volume-${index}`;
export const nodeName = (index: number): string => `node-${String(index).padStart(5, "0")}`;

const capability: VolumeCapability = {
  accessMode: "SINGLE_NODE_SINGLE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "ext4",
  mountFlags: ["noatime"],
  volumeMountGroup: "",
};

const plain = (id: string): VolumeRecord => ({
  ...volumeRecord(),
  namespace: "default",
  id,
  uid: `0b1f7a54-8a6e-4d5b-9f3d-${id.padStart(12, "0").slice(-12)}`,
  name: `9d2c7a10-1f3e-4b7a-8c55-${id.padStart(12, "0").slice(-12)}`,
  externalId: `vol-0a1b2c3d4e5f-${id}`,
  plugin: scalePlugin,
  capabilities: [capability],
});

/** Claimed, attached and mounted, as most volumes are. */
export const takenVolume = (index: number, nodes: number): VolumeRecord => {
  const [id, node] = [takenName(index), nodeName(index % nodes)];
  const uid = `5e0d3c9a-6b77-4c1d-9e7a-${String(index).padStart(12, "0")}`;
  const claim = claimRecord(uid, {
    ...capability,
    workload: `workload-${index}`,
    alias: "data",
    node,
    state: "ACTIVE",
    epoch: { gen: 1, ctr: 1 },
    set: [{ namespace: "default", volume: id, uid }],
    publication: {
      hostPath: `/var/lib/holdfast/mounts/${uid}`,
      mountId: 1000 + index,
      bootId: `boot-${node}-1`,
      journalUid: `journal-${node}-1`,
    },
  });
  const volume = plain(id);
  return {
    ...volume,
    claims: { [uid]: claim },
    attachments: { [node]: attachmentRecord(node, { ...capability, publishContext: { device: `/dev/xvd${index}` } }) },
  };
};

const batch = 200;

const commitAll = async (store: Store, writes: readonly RecordWrite[]): Promise<void> => {
  for (let n = 0; n < writes.length; n += batch)
    await store.commit({
      opId: randomUUID(),
      writes: writes.slice(n, n + batch),
      events: [],
      requiresVetted: false,
    });
};

/** Straight into the store, as if controllers had made them one by one. */
export const loadVolumes = async (store: Store, { volumes, nodes }: ScaleSize): Promise<void> => {
  const group = 2_000;
  for (let from = 0; from < volumes; from += group) {
    const some = Array.from({ length: Math.min(group, volumes - from) }, (_, i) => takenVolume(from + i, nodes));
    await commitAll(
      store,
      some.map((volume) => encodeVolume(volume, 0, 0).write),
    );
  }
  const free = Array.from({ length: freeVolumes }, (_, i) => plain(freeName(i)));
  await commitAll(
    store,
    free.map((volume) => encodeVolume(volume, 0, 0).write),
  );
};
