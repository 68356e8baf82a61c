import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  BlockMetadataType,
  ControllerDefinition,
  ControllerServiceCapability_RPC_Type as ControllerType,
  GroupControllerDefinition,
  IdentityDefinition,
  VolumeCapability_AccessMode_Mode as Mode,
  NodeDefinition,
  PluginCapability_Service_Type as ServiceType,
  SnapshotMetadataDefinition,
  StorageHealthErrorType,
  VolumeUsage_Unit as Unit,
  VolumeHealthErrorType,
} from "@holdfast/shared/gen/csi/v1/csi";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { afterEach, describe, expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverSettings } from "../operations.ts";
import { createFakeOperations, fakeGroup, fakeSnapshot, fakeVolume } from "../testing/fake-operations.ts";
import { addDriverServices, type DriverParts } from "./driver-services.ts";
import { driverStatusMiddleware } from "./driver-status.ts";
import { createPending } from "./pending.ts";

const settings: DriverSettings = {
  name: "local.holdfast.dev",
  version: "1.2.3",
  nodeId: "node-a",
  topologyKey: "local.holdfast.dev/node",
  defaultType: "image",
  types: ["directory", "image"],
  defaultFsType: "ext4",
  defaultBytes: 1n << 30n,
  attach: true,
  maxVolumesPerNode: 9,
};

const capability = {
  mount: { fsType: "xfs", mountFlags: ["noatime"], volumeMountGroup: "7" },
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
};
const block = { block: {}, accessMode: { mode: Mode.SINGLE_NODE_MULTI_WRITER } };
const asCapability = {
  access: "mount",
  mode: "SINGLE_NODE_WRITER",
  fsType: "xfs",
  mountFlags: ["noatime"],
  mountGroup: "7",
};
const volumeId = fakeVolume.id;

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const serve = async (changes: Partial<DriverParts> = {}) => {
  const log = createMemoryLogger();
  const socket = await tempSocket();
  cleanups.push(socket.remove);
  const fake = createFakeOperations();
  const pending = createPending({ monotonic: () => performance.now() });
  const server = createGrpcServer({ log, middlewares: [driverStatusMiddleware] });
  const parts: DriverParts = {
    ...fake,
    settings,
    pending,
    space: { freeBytes: async () => 1n },
    ready: () => true,
    ...changes,
  };
  addDriverServices(server, parts);
  const address = await server.listen(socket.address);
  cleanups.push(() => server.stop({ graceMs: 0 }));
  const channel = createGrpcChannel(address);
  cleanups.push(() => channel.close());
  const options = { log: createMemoryLogger() };
  return {
    fake,
    log,
    pending,
    server,
    identity: createGrpcClient(IdentityDefinition, channel, options),
    controller: createGrpcClient(ControllerDefinition, channel, options),
    groups: createGrpcClient(GroupControllerDefinition, channel, options),
    metadata: createGrpcClient(SnapshotMetadataDefinition, channel, options),
    node: createGrpcClient(NodeDefinition, channel, options),
  };
};

const all = async <T>(stream: AsyncIterable<T>): Promise<readonly T[]> => {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
};

const failure = async (promise: Promise<unknown>): Promise<HoldfastError> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof HoldfastError) return error;
  throw new Error(`expected a failure, got ${String(error)}`);
};

const volumeMessage = {
  volumeId,
  capacityBytes: 1n << 30n,
  volumeContext: {},
  contentSource: { snapshot: { snapshotId: fakeSnapshot.id } },
  accessibleTopology: [{ segments: { "local.holdfast.dev/node": "node-a" } }],
};
const snapshotMessage = {
  snapshotId: fakeSnapshot.id,
  sourceVolumeId: volumeId,
  sizeBytes: 1n << 30n,
  creationTime: new Date(fakeSnapshot.createdAt),
  readyToUse: true,
  groupSnapshotId: fakeGroup.id,
  accessibleTopology: [],
};

describe("what is asked and what is answered", () => {
  test("identity", async () => {
    const { identity } = await serve();
    expect(await identity.getPluginInfo({})).toEqual({ name: settings.name, vendorVersion: "1.2.3", manifest: {} });
    expect(await identity.probe({})).toEqual({ ready: true });
    const { capabilities } = await identity.getPluginCapabilities({});
    expect(capabilities.map(({ service }) => service?.type)).toEqual([
      ServiceType.CONTROLLER_SERVICE,
      ServiceType.VOLUME_ACCESSIBILITY_CONSTRAINTS,
      ServiceType.GROUP_CONTROLLER_SERVICE,
      ServiceType.SNAPSHOT_METADATA_SERVICE,
      undefined,
    ]);
  });

  test("a driver that still recovers is not ready; one without its disk is not healthy", async () => {
    const recovering = await serve({ ready: () => false });
    expect(await recovering.identity.probe({})).toEqual({ ready: false });
    const lost = await serve({ space: { freeBytes: () => Promise.reject(new Error("EIO: i/o error")) } });
    expect(await failure(lost.identity.probe({}))).toMatchObject({ kind: "precondition", message: /node-a: EIO/ });
  });

  test("volumes", async () => {
    const { controller, fake } = await serve();
    const made = await controller.createVolume({
      name: "one",
      capacityRange: { requiredBytes: 1n, limitBytes: 2n },
      volumeCapabilities: [capability, block],
      parameters: { type: "image" },
      mutableParameters: { mountOptions: "noatime" },
      volumeContentSource: { snapshot: { snapshotId: fakeSnapshot.id } },
      accessibilityRequirements: { requisite: [{ segments: { a: "b" } }], preferred: [{ segments: { a: "b" } }] },
      secrets: { password: "hunter2" },
    });
    expect(made).toEqual({ volume: volumeMessage });
    await controller.deleteVolume({ volumeId });
    const status = { publishedNodeIds: ["node-a"], volumeCondition: { abnormal: false, message: "" } };
    expect(await controller.controllerGetVolume({ volumeId })).toEqual({ volume: volumeMessage, status });
    expect(await controller.listVolumes({ maxEntries: 3, startingToken: "t" })).toEqual({
      entries: [{ volume: volumeMessage, status }],
      nextToken: "next",
    });
    expect(
      await controller.controllerExpandVolume({ volumeId, capacityRange: { requiredBytes: 5n, limitBytes: 0n } }),
    ).toEqual({ capacityBytes: 2n << 30n, nodeExpansionRequired: true });
    await controller.controllerModifyVolume({ volumeId, mutableParameters: { "label.a": "b" } });
    expect(
      await controller.controllerPublishVolume({
        volumeId,
        nodeId: "node-a",
        volumeCapability: capability,
        readonly: true,
      }),
    ).toEqual({ publishContext: {} });
    await controller.controllerUnpublishVolume({ volumeId });
    expect(await controller.getCapacity({ accessibleTopology: { segments: { a: "b" } } })).toEqual({
      availableCapacity: 5n,
      maximumVolumeSize: 4n,
      minimumVolumeSize: 3n,
    });
    expect(fake.calls).toEqual([
      [
        "createVolume",
        {
          name: "one",
          capacity: { requiredBytes: 1n, limitBytes: 2n },
          capabilities: [
            asCapability,
            { access: "block", mode: "SINGLE_NODE_MULTI_WRITER", fsType: "", mountFlags: [], mountGroup: "" },
          ],
          parameters: { type: "image" },
          mutableParameters: { mountOptions: "noatime" },
          source: { kind: "snapshot", id: fakeSnapshot.id },
          requisite: [{ a: "b" }],
          preferred: [{ a: "b" }],
        },
      ],
      ["deleteVolume", volumeId],
      ["getVolume", volumeId],
      ["listVolumes", { maxEntries: 3, startingToken: "t" }],
      ["expandVolume", volumeId, { capacity: { requiredBytes: 5n, limitBytes: 0n }, capability: undefined }],
      ["modifyVolume", volumeId, { "label.a": "b" }],
      ["attach", volumeId, { nodeId: "node-a", capability: asCapability, readonly: true }],
      ["detach", volumeId, ""],
      ["capacity", { capabilities: [], parameters: {}, segments: { a: "b" } }],
    ]);
  });

  test("what is never offered is not confirmed, and has no room; the volume has the last word on the rest", async () => {
    const { controller, fake } = await serve();
    const odd = { mount: { fsType: "btrfs" }, accessMode: { mode: Mode.MULTI_NODE_READER_ONLY } };
    expect(await controller.validateVolumeCapabilities({ volumeId, volumeCapabilities: [capability, odd] })).toEqual({
      confirmed: undefined,
      message:
        "volume_capabilities[1].access_mode.mode MULTI_NODE_READER_ONLY is not offered: a volume is on one node; " +
        "volume_capabilities[1].mount.fs_type is neither ext4 nor xfs",
    });
    expect(await controller.getCapacity({ volumeCapabilities: [odd] })).toMatchObject({ availableCapacity: 0n });
    expect(
      await controller.validateVolumeCapabilities({
        volumeId,
        volumeCapabilities: [capability],
        volumeContext: { a: "b" },
      }),
    ).toEqual({ confirmed: undefined, message: "volume_context: volumes of this driver have none" });
    const confirmed = await controller.validateVolumeCapabilities({
      volumeId,
      volumeCapabilities: [capability],
      parameters: { type: "image" },
      mutableParameters: { "label.a": "b" },
    });
    expect(confirmed).toMatchObject({
      confirmed: { parameters: { type: "image" }, mutableParameters: { "label.a": "b" }, volumeContext: {} },
      message: "",
    });
    expect(confirmed.confirmed?.volumeCapabilities).toHaveLength(1);
    expect(fake.calls.map(([operation]) => operation)).toEqual([
      "getVolume",
      "getVolume",
      "getVolume",
      "validateCapabilities",
    ]);
  });

  test("snapshots and groups", async () => {
    const { controller, groups, fake } = await serve();
    expect(
      await controller.createSnapshot({ name: "moment", sourceVolumeId: volumeId, parameters: { live: "allow" } }),
    ).toEqual({ snapshot: snapshotMessage });
    expect(await controller.getSnapshot({ snapshotId: fakeSnapshot.id })).toEqual({ snapshot: snapshotMessage });
    expect(await controller.listSnapshots({ sourceVolumeId: volumeId })).toEqual({
      entries: [{ snapshot: snapshotMessage }],
      nextToken: "",
    });
    await controller.deleteSnapshot({ snapshotId: fakeSnapshot.id });
    const groupSnapshot = {
      groupSnapshotId: fakeGroup.id,
      snapshots: [snapshotMessage],
      creationTime: new Date(fakeGroup.createdAt),
      readyToUse: true,
    };
    expect(await groups.createVolumeGroupSnapshot({ name: "moments", sourceVolumeIds: [volumeId] })).toEqual({
      groupSnapshot,
    });
    const whole = { groupSnapshotId: fakeGroup.id, snapshotIds: [fakeSnapshot.id] };
    expect(await groups.getVolumeGroupSnapshot(whole)).toEqual({ groupSnapshot });
    await groups.deleteVolumeGroupSnapshot(whole);
    expect(fake.calls).toEqual([
      ["createSnapshot", { name: "moment", volumeId, parameters: { live: "allow" } }],
      ["getSnapshot", fakeSnapshot.id],
      ["listSnapshots", expect.objectContaining({ maxEntries: 0, startingToken: "" }), { volumeId, snapshotId: "" }],
      ["deleteSnapshot", fakeSnapshot.id],
      ["createGroup", { name: "moments", volumeIds: [volumeId], parameters: {} }],
      ["getGroup", fakeGroup.id, [fakeSnapshot.id]],
      ["deleteGroup", fakeGroup.id, [fakeSnapshot.id]],
    ]);
  });

  test("snapshot metadata, as many messages as the operation makes, and one at least", async () => {
    const fake = createFakeOperations();
    const empty = async () => ({ capacityBytes: 9n, blocks: (async function* () {})() });
    const { metadata, fake: noted } = await serve();
    const messages = await all(metadata.getMetadataAllocated({ snapshotId: "s", startingOffset: 4096n }));
    const common = { blockMetadataType: BlockMetadataType.VARIABLE_LENGTH, volumeCapacityBytes: 1n << 30n };
    expect(messages).toEqual([
      { ...common, blockMetadata: [{ byteOffset: 0n, sizeBytes: 4096n }] },
      { ...common, blockMetadata: [{ byteOffset: 8192n, sizeBytes: 12_288n }] },
    ]);
    await all(metadata.getMetadataDelta({ baseSnapshotId: "a", targetSnapshotId: "b", maxResults: 10 }));
    expect(noted.calls).toEqual([
      ["allocated", { snapshotId: "s", startingOffset: 4096n, maxResults: 4096 }],
      ["delta", { baseSnapshotId: "a", targetSnapshotId: "b", startingOffset: 0n, maxResults: 10 }],
    ]);
    const bare = await serve({ metadata: { ...fake.metadata, allocated: empty } });
    expect(await all(bare.metadata.getMetadataAllocated({ snapshotId: "s" }))).toEqual([
      { blockMetadataType: BlockMetadataType.VARIABLE_LENGTH, volumeCapacityBytes: 9n, blockMetadata: [] },
    ]);
  });

  test("the node, with every path in one spelling", async () => {
    const { node, fake } = await serve();
    await node.nodeStageVolume({ volumeId, stagingTargetPath: "//s/", volumeCapability: capability });
    await node.nodePublishVolume({
      volumeId,
      stagingTargetPath: "/s//",
      targetPath: "/t///x",
      volumeCapability: capability,
      readonly: true,
    });
    await node.nodeUnpublishVolume({ volumeId, targetPath: "/t/x/" });
    await node.nodeUnstageVolume({ volumeId, stagingTargetPath: "/s/" });
    expect(await node.nodeGetVolumeStats({ volumeId, volumePath: "/t/x/" })).toEqual({
      usage: [{ unit: Unit.BYTES, total: 7n, used: 0n, available: 0n }],
      volumeCondition: { abnormal: false, message: "" },
    });
    expect(await node.nodeGetVolumeHealth({ volumeId, stagingTargetPath: "/s/" })).toEqual({
      volumeHealth: {
        volumeId,
        healthStatuses: [{ status: VolumeHealthErrorType.DATA_LOSS, reason: "ContentsDamaged", message: "cut" }],
      },
    });
    expect(await node.nodeGetStorageHealth({})).toEqual({
      backendHealth: [
        {
          status: StorageHealthErrorType.STORAGE_DEGRADED,
          reason: "DiskFull",
          message: "",
          volumeCapability: undefined,
        },
      ],
    });
    expect(await node.nodeExpandVolume({ volumeId, volumePath: "/s/" })).toEqual({ capacityBytes: 2n << 30n });
    expect(await node.nodeGetInfo({})).toEqual({
      nodeId: "node-a",
      maxVolumesPerNode: 9n,
      accessibleTopology: { segments: { "local.holdfast.dev/node": "node-a" } },
    });
    expect(fake.calls).toEqual([
      ["stage", { volumeId, stagingPath: "/s", capability: asCapability }],
      ["publish", { volumeId, stagingPath: "/s", targetPath: "/t/x", capability: asCapability, readonly: true }],
      ["unpublish", { volumeId, targetPath: "/t/x" }],
      ["unstage", { volumeId, stagingPath: "/s" }],
      ["stats", { volumeId, path: "/t/x" }],
      ["volumeHealth", { volumeId }],
      ["storageHealth"],
      ["expand", { volumeId, path: "/s", capacity: { requiredBytes: 0n, limitBytes: 0n }, capability: undefined }],
    ]);
  });
});

describe("capabilities", () => {
  const typesOf = async (attach: boolean) => {
    const { controller } = await serve({ settings: { ...settings, attach } });
    return (await controller.controllerGetCapabilities({})).capabilities.map(({ rpc }) => rpc?.type);
  };
  const aboutAttaching = [
    ControllerType.PUBLISH_UNPUBLISH_VOLUME,
    ControllerType.PUBLISH_READONLY,
    ControllerType.LIST_VOLUMES_PUBLISHED_NODES,
  ];

  test("attaching is offered only where it is switched on, and nothing else depends on it", async () => {
    const [on, off] = [await typesOf(true), await typesOf(false)];
    const neverOffered: readonly number[] = [ControllerType.GET_VOLUME_HEALTH, ControllerType.LIST_VOLUME_HEALTH];
    const all = Object.values(ControllerType).filter((type) => type > 0 && !neverOffered.includes(type));
    expect(new Set(on)).toEqual(new Set(all));
    expect(new Set(off)).toEqual(new Set(all.filter((type) => !aboutAttaching.includes(type as never))));
  });

  test("what is not offered is UNIMPLEMENTED, and says no published nodes", async () => {
    const { controller, fake } = await serve({ settings: { ...settings, attach: false } });
    for (const call of [
      controller.controllerPublishVolume({ volumeId, nodeId: "node-a", volumeCapability: capability }),
      controller.controllerUnpublishVolume({ volumeId }),
    ])
      expect(await failure(call)).toMatchObject({ kind: "unimplemented", message: /HOLDFAST_LOCAL_ATTACH=1/ });
    expect((await controller.controllerGetVolume({ volumeId })).status?.publishedNodeIds).toEqual([]);
    expect(fake.calls.map(([operation]) => operation)).toEqual(["getVolume"]);
  });
});

describe("refusals", () => {
  test("a request with faults reaches no operation and holds nothing", async () => {
    const { node, fake, pending } = await serve();
    const error = await failure(node.nodeStageVolume({ stagingTargetPath: "s/.." }));
    expect(error).toMatchObject({
      kind: "invalid",
      violations: [
        { field: "volume_id", description: "is required" },
        { field: "staging_target_path", description: "has to be an absolute path" },
        { field: "staging_target_path", description: 'may not have "." or ".." in it' },
        { field: "volume_capability", description: "is required" },
      ],
    });
    expect(fake.calls).toEqual([]);
    expect(pending.held()).toEqual(new Map());
  });

  test("a publication without its staging path is FAILED_PRECONDITION", async () => {
    const { node, fake } = await serve();
    const error = await failure(node.nodePublishVolume({ volumeId, targetPath: "/t", volumeCapability: capability }));
    expect(error).toMatchObject({ kind: "precondition", message: new RegExp(volumeId) });
    expect(fake.calls).toEqual([]);
  });

  test("of an operation come with their code and every word; of the kernel with what it said; of nobody with nothing", async () => {
    const fake = createFakeOperations();
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    const broken = Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" });
    const errors = [
      new DriverError("OUT_OF_RANGE", "volume a: 5 bytes"),
      full,
      broken,
      new TypeError("undefined is hunter2"),
    ];
    const { controller, log } = await serve({
      volumes: {
        ...fake.volumes,
        deleteVolume: async () => {
          throw errors.shift();
        },
      },
    });
    const seen = [];
    for (let at = 0; at < 4; at += 1) seen.push(await failure(controller.deleteVolume({ volumeId })));
    expect(seen.map(({ kind, reason, message }) => [kind, reason, message])).toEqual([
      ["out_of_range", "OUT_OF_RANGE", "volume a: 5 bytes"],
      ["exhausted", "RESOURCE_EXHAUSTED", expect.stringContaining("ENOSPC: no space left on device, write")],
      ["internal", "EIO", "EIO: i/o error, read"],
      ["internal", "INTERNAL", expect.not.stringContaining("hunter2")],
    ]);
    expect(log.lines.filter(({ message }) => message === "call failed")).toHaveLength(4);
  });

  test("secrets are in no line of the log", async () => {
    const { controller, log } = await serve();
    const secrets = { password: "hunter2" };
    await controller.deleteVolume({ volumeId, secrets });
    await failure(controller.deleteVolume({ volumeId: "", secrets: { password: "hunter2".repeat(999) } }));
    expect(log.lines.length).toBeGreaterThan(1);
    expect(JSON.stringify(log.lines)).not.toContain("hunter2");
  });
});

describe("calls in flight", () => {
  const blocked = () => {
    const fake = createFakeOperations();
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<AbortSignal>();
    const node = {
      ...fake.node,
      stage: async (_input: unknown, signal: AbortSignal) => {
        begun.resolve(signal);
        await gate.promise;
      },
    };
    return { node, gate, begun };
  };
  const staging = { volumeId, stagingTargetPath: "/s", volumeCapability: capability };

  test("a second call on the volume, or at the path, is ABORTED; reads go on", async () => {
    const { node: blockedNode, gate, begun } = blocked();
    const { node, controller } = await serve({ node: blockedNode });
    const first = node.nodeStageVolume(staging);
    await begun.promise;
    expect(await failure(controller.deleteVolume({ volumeId }))).toMatchObject({
      kind: "aborted",
      message: expect.stringContaining(`NodeStageVolume has been at work on volume ${volumeId}`),
    });
    expect(
      await failure(node.nodeStageVolume({ ...staging, volumeId: "other", stagingTargetPath: "/s/" })),
    ).toMatchObject({ kind: "aborted" });
    expect((await controller.controllerGetVolume({ volumeId })).volume?.volumeId).toBe(volumeId);
    gate.resolve();
    await first;
    await controller.deleteVolume({ volumeId });
  });

  test("the deadline of the caller reaches the operation, and what it left is still in flight until it has ended", async () => {
    const { node: blockedNode, gate, begun } = blocked();
    const { node, controller, pending } = await serve({ node: blockedNode });
    // Connected first: the caller's clock runs while it connects, the driver's only once the call is there.
    await node.nodeGetCapabilities({});
    const error = await failure(node.nodeStageVolume(staging, { deadlineMs: 500 }));
    expect(error.kind).toBe("deadline");
    const signal = await begun.promise;
    await expect.poll(() => signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ kind: "deadline" });
    expect(await failure(controller.deleteVolume({ volumeId }))).toMatchObject({ kind: "aborted" });
    gate.resolve();
    await expect.poll(() => pending.held()).toEqual(new Map());
    await controller.deleteVolume({ volumeId });
  });

  test("a caller that gives up is no different", async () => {
    const { node: blockedNode, gate, begun } = blocked();
    const { node, pending } = await serve({ node: blockedNode });
    const caller = new AbortController();
    const call = failure(node.nodeStageVolume(staging, { signal: caller.signal }));
    const signal = await begun.promise;
    caller.abort();
    expect((await call).kind).toBe("cancelled");
    await expect.poll(() => signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ kind: "cancelled" });
    expect([...pending.held().keys()]).toEqual([`volume ${volumeId}`, "/s"]);
    gate.resolve();
    await expect.poll(() => pending.held()).toEqual(new Map());
  });
});
