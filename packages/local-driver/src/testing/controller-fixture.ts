import { type ControllerOperations, createControllerOperations } from "../controller/controller-operations.ts";
import type { Capability, FsType, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { CreateVolumeInput, DriverSettings } from "../operations.ts";
import { driverSettings } from "./driver-settings.ts";
import { createMemoryHost, type MemoryHost } from "./memory-host.ts";
import { devOf } from "./memory-world.ts";

export const mib = 1n << 20n;
export const gib = 1n << 30n;

export const controllerSettings: DriverSettings = { ...driverSettings, attach: true };

export const mounting: Capability = {
  access: "mount",
  mode: "SINGLE_NODE_WRITER",
  fsType: "",
  mountFlags: [],
  mountGroup: "",
};
export const raw: Capability = { ...mounting, access: "block" };

export const volumeInput = (name: string, over: Partial<CreateVolumeInput> = {}): CreateVolumeInput => ({
  name,
  capacity: { requiredBytes: 0n, limitBytes: 0n },
  capabilities: [mounting],
  parameters: {},
  mutableParameters: {},
  source: undefined,
  requisite: [],
  preferred: [],
  ...over,
});

export const bytes = (requiredBytes: bigint, limitBytes = 0n) => ({ requiredBytes, limitBytes });

export interface ControllerFixture extends ControllerOperations {
  readonly memory: MemoryHost;
  readonly signal: AbortSignal;
  /** A new process on the same host. */
  restart(): void;
  volume(name: string, over?: Partial<CreateVolumeInput>): Promise<VolumeRecord>;
  snapshot(name: string, volumeId: string, parameters?: Record<string, string>): Promise<SnapshotRecord>;
  /** As NodeStageVolume and NodePublishVolume leave an image: formatted, mounted at /stage/<name>. */
  mounted(volume: VolumeRecord, fsType?: FsType): void;
  /** As NodePublishVolume leaves a raw device, at /target/<name>. */
  published(volume: VolumeRecord, how?: { readonly readonly: boolean }): void;
  /** Of a directory, at /target/<name>. */
  bound(volume: VolumeRecord, how?: { readonly readonly: boolean }): void;
  /** All of that undone, as NodeUnpublishVolume and NodeUnstageVolume do. */
  released(volume: VolumeRecord): void;
  record(id: string): VolumeRecord;
}

export function createControllerFixture(
  over: { readonly settings?: Partial<DriverSettings>; readonly diskBytes?: bigint; readonly reflinks?: boolean } = {},
): ControllerFixture {
  const { settings, ...disk } = over;
  const memory = createMemoryHost(disk);
  const start = () =>
    createControllerOperations({ host: memory.host, settings: { ...controllerSettings, ...settings } });
  let operations = start();
  const { signal } = new AbortController();

  const record = (id: string): VolumeRecord => {
    const found = memory.records.volumes.get(id);
    if (found === undefined) throw new Error(`there is no volume ${id}`);
    return found;
  };
  const change = (id: string, changed: Partial<VolumeRecord>) => {
    memory.records.volumes.set(id, { ...record(id), ...changed });
  };
  const loopFor = ({ id }: VolumeRecord, readonly: boolean): string => {
    const { image } = memory.host.state.volumes.paths(id);
    const device = `/dev/loop${memory.world.loops.size}`;
    memory.world.loops.set(device, { device, image, readonly, bytes: memory.imageOf("volumes", id).bytes });
    return device;
  };
  const publish = (id: string, name: string, access: "mount" | "block", readonly: boolean) => {
    const path = `/target/${name}`;
    memory.world.places.set(path, access === "block" ? "file" : "directory");
    change(id, { publications: [{ path, readonly, capability: access === "block" ? raw : mounting }] });
    return path;
  };

  return {
    memory,
    signal,
    get volumes() {
      return operations.volumes;
    },
    get snapshots() {
      return operations.snapshots;
    },
    get metadata() {
      return operations.metadata;
    },
    restart: () => {
      memory.restart();
      operations = start();
    },
    volume: (name, input) => operations.volumes.createVolume(volumeInput(name, input), signal),
    snapshot: (name, volumeId, parameters = {}) =>
      operations.snapshots.createSnapshot({ name, volumeId, parameters }, signal),
    mounted: (volume, fsType = "ext4") => {
      const path = `/stage/${volume.name}`;
      memory.world.places.set(path, "directory");
      change(volume.id, { format: { fsType, finished: true }, staging: { path, capability: mounting } });
      const image = memory.imageOf("volumes", volume.id);
      image.signature = { kind: "filesystem", fsType };
      image.identity = memory.world.identities += 1;
      const device = loopFor(volume, false);
      const rest = { root: "/", dev: devOf(device), fsType, source: device, superOptions: ["rw"] };
      memory.world.mounts.push({ mountPoint: path, options: ["rw"], ...rest });
    },
    published: (volume, { readonly } = { readonly: false }) => {
      const path = publish(volume.id, volume.name, "block", readonly);
      const device = loopFor(volume, readonly);
      const rest = { root: device.replace("/dev", ""), dev: "0:6", fsType: "devtmpfs", source: "udev" };
      memory.world.mounts.push({ mountPoint: path, options: ["rw"], superOptions: ["rw"], ...rest });
    },
    bound: (volume, { readonly } = { readonly: false }) => {
      const path = publish(volume.id, volume.name, "mount", readonly);
      const { data } = memory.host.state.volumes.paths(volume.id);
      const rest = { root: data, dev: "8:1", fsType: "ext4", source: "/dev/sda1", superOptions: ["rw"] };
      memory.world.mounts.push({ mountPoint: path, options: [readonly ? "ro" : "rw"], ...rest });
    },
    released: (volume) => {
      const paths = [`/stage/${volume.name}`, `/target/${volume.name}`];
      const { image } = memory.host.state.volumes.paths(volume.id);
      const kept = memory.world.mounts.filter(({ mountPoint }) => !paths.includes(mountPoint));
      memory.world.mounts.splice(0, memory.world.mounts.length, ...kept);
      for (const [device, loop] of memory.world.loops) if (loop.image === image) memory.world.loops.delete(device);
      for (const path of paths) memory.world.places.delete(path);
      change(volume.id, { staging: undefined, publications: [] });
    },
    record,
  };
}

/** What an operation refused with: code and message. */
export async function refusalOf(
  answer: Promise<unknown>,
): Promise<{ readonly code: string; readonly message: string }> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof Error && "code" in error) return { code: String(error.code), message: error.message };
    throw error;
  }
  throw new Error("it was not refused");
}
