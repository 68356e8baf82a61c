import type { Capability, VolumeRecord } from "../domain/records.ts";
import { createNodeOperations } from "../node/node-operations.ts";
import type { DriverSettings, NodeOperations } from "../operations.ts";
import { driverSettings } from "./driver-settings.ts";
import { createMemoryHost, type MemoryHost } from "./memory-host.ts";

const mib = 1n << 20n;

export const mountCapability: Capability = {
  access: "mount",
  mode: "SINGLE_NODE_MULTI_WRITER",
  fsType: "",
  mountFlags: [],
  mountGroup: "",
};
export const blockCapability: Capability = { ...mountCapability, access: "block" };
export const readerCapability: Capability = { ...mountCapability, mode: "SINGLE_NODE_READER_ONLY" };

export const stagingPath = "/co/staging";
export const targetPath = (n: number): string => `/co/pods/${n}/target`;

export interface NodeFixture {
  readonly memory: MemoryHost;
  /** Of the present life. */
  readonly node: NodeOperations;
  readonly signal: AbortSignal;
  addVolume(over?: Partial<VolumeRecord>): Promise<VolumeRecord>;
  record(id: string): VolumeRecord;
  stage(id: string, capability?: Capability, path?: string): Promise<void>;
  unstage(id: string, path?: string): Promise<void>;
  publish(
    id: string,
    n: number,
    how?: { readonly capability?: Capability; readonly readonly?: boolean },
  ): Promise<void>;
  unpublish(id: string, n: number): Promise<void>;
  /** As mount points, in order. */
  mounts(): readonly string[];
}

/** The operations of a node on a host in memory, with the directories that the orchestrator makes. */
export function createNodeFixture(settings: Partial<DriverSettings> = {}): NodeFixture {
  const memory = createMemoryHost();
  for (const place of ["/co", stagingPath, "/co/other", "/co/pods", "/co/pods/1", "/co/pods/2", "/co/pods/3"])
    memory.world.places.set(place, "directory");
  const signal = new AbortController().signal;
  const operations = () =>
    createNodeOperations({ host: memory.host, settings: { ...driverSettings, ...settings }, undoMs: 50 });
  return {
    memory,
    get node() {
      return operations();
    },
    signal,
    addVolume: async (over = {}) => {
      const record: VolumeRecord = {
        kind: "volume",
        id: memory.host.newId(),
        name: "data",
        type: "image",
        capacityBytes: 64n * mib,
        createdAt: memory.host.clock.now(),
        parameters: {},
        source: undefined,
        mutable: {},
        format: undefined,
        attachments: [],
        staging: undefined,
        publications: [],
        ...over,
      };
      await memory.host.state.volumes.add(record, async (paths) => {
        if (record.type === "image") await memory.host.images.create(paths.image, record.capacityBytes, signal);
        else await memory.host.trees.makeRoot(paths.data);
      });
      memory.calls.length = 0;
      return record;
    },
    record: (id) => {
      const found = memory.records.volumes.get(id);
      if (found === undefined) throw new Error(`there is no volume ${id}`);
      return found;
    },
    stage: (volumeId, capability = mountCapability, path = stagingPath) =>
      operations().stage({ volumeId, stagingPath: path, capability }, signal),
    unstage: (volumeId, path = stagingPath) => operations().unstage({ volumeId, stagingPath: path }, signal),
    publish: (volumeId, n, { capability = mountCapability, readonly = false } = {}) =>
      operations().publish({ volumeId, stagingPath, targetPath: targetPath(n), capability, readonly }, signal),
    unpublish: (volumeId, n) => operations().unpublish({ volumeId, targetPath: targetPath(n) }, signal),
    mounts: () => memory.world.mounts.map(({ mountPoint }) => mountPoint),
  };
}
