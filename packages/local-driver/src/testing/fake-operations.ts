import type { GroupRecord, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { MetadataOperations, NodeOperations, SnapshotOperations, VolumeOperations } from "../operations.ts";

export interface FakeOperations {
  readonly volumes: VolumeOperations;
  readonly snapshots: SnapshotOperations;
  readonly metadata: MetadataOperations;
  readonly node: NodeOperations;
  /** Every call that reached an operation, signals left out. */
  readonly calls: (readonly [operation: string, ...arguments: unknown[]])[];
}

export const fakeVolume: VolumeRecord = {
  kind: "volume",
  id: "11111111-1111-4111-8111-111111111111",
  name: "one",
  type: "image",
  capacityBytes: 1n << 30n,
  createdAt: "2026-01-02T03:04:05.678Z",
  parameters: {},
  source: { kind: "snapshot", id: "22222222-2222-4222-8222-222222222222" },
  mutable: {},
  format: undefined,
  attachments: [{ nodeId: "node-a", readonly: false, access: "mount", mode: "SINGLE_NODE_WRITER" }],
  staging: undefined,
  publications: [],
};

export const fakeSnapshot: SnapshotRecord = {
  kind: "snapshot",
  id: "22222222-2222-4222-8222-222222222222",
  name: "moment",
  volumeId: fakeVolume.id,
  type: "image",
  sizeBytes: 1n << 30n,
  format: undefined,
  createdAt: "2026-01-02T03:04:06.789Z",
  parameters: {},
  groupId: "33333333-3333-4333-8333-333333333333",
};

export const fakeGroup: GroupRecord = {
  kind: "group",
  id: "33333333-3333-4333-8333-333333333333",
  name: "moments",
  createdAt: "2026-01-02T03:04:06.789Z",
  parameters: {},
  volumeIds: [fakeVolume.id],
  snapshotIds: [fakeSnapshot.id],
};

const fine = { abnormal: false, message: "" };

async function* inTwo() {
  yield [{ offset: 0n, size: 4096n }];
  yield [{ offset: 8192n, size: 12_288n }];
}

/** Operations that only note what they were asked and give one answer; a test replaces what it is about. */
export const createFakeOperations = (): FakeOperations => {
  const calls: FakeOperations["calls"] = [];
  const note =
    <A extends readonly unknown[], R>(operation: string, answer: R) =>
    async (...given: A): Promise<R> => {
      calls.push([operation, ...given.filter((one) => !(one instanceof AbortSignal))]);
      return answer;
    };
  const group = { group: fakeGroup, snapshots: [fakeSnapshot] };
  const stream = () => ({ capacityBytes: fakeSnapshot.sizeBytes, blocks: inTwo() });
  return {
    calls,
    volumes: {
      createVolume: note("createVolume", fakeVolume),
      deleteVolume: note("deleteVolume", undefined),
      getVolume: note("getVolume", { volume: fakeVolume, condition: fine }),
      listVolumes: note("listVolumes", { entries: [{ volume: fakeVolume, condition: fine }], nextToken: "next" }),
      validateCapabilities: note("validateCapabilities", undefined),
      capacity: note("capacity", { availableBytes: 5n, maximumVolumeBytes: 4n, minimumVolumeBytes: 3n }),
      expandVolume: note("expandVolume", { capacityBytes: 2n << 30n, nodeExpansionRequired: true }),
      modifyVolume: note("modifyVolume", undefined),
      attach: note("attach", undefined),
      detach: note("detach", undefined),
    },
    snapshots: {
      createSnapshot: note("createSnapshot", fakeSnapshot),
      deleteSnapshot: note("deleteSnapshot", undefined),
      getSnapshot: note("getSnapshot", fakeSnapshot),
      listSnapshots: note("listSnapshots", { entries: [fakeSnapshot], nextToken: "" }),
      createGroup: note("createGroup", group),
      deleteGroup: note("deleteGroup", undefined),
      getGroup: note("getGroup", group),
    },
    metadata: {
      allocated: async (input) => {
        calls.push(["allocated", input]);
        return stream();
      },
      delta: async (input) => {
        calls.push(["delta", input]);
        return stream();
      },
    },
    node: {
      stage: note("stage", undefined),
      unstage: note("unstage", undefined),
      publish: note("publish", undefined),
      unpublish: note("unpublish", undefined),
      stats: note("stats", { access: "block" as const, totalBytes: 7n, usage: undefined, condition: fine }),
      volumeHealth: note("volumeHealth", [{ status: "DATA_LOSS" as const, reason: "ContentsDamaged", message: "cut" }]),
      storageHealth: note("storageHealth", [{ status: "STORAGE_DEGRADED" as const, reason: "DiskFull", message: "" }]),
      expand: note("expand", { capacityBytes: 2n << 30n }),
      recover: note("recover", []),
    },
  };
};
