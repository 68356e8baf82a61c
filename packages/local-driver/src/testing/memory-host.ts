import type { DriverRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";
import { createFaultPlan, type Fault, type Life, type PortCall, underFaults } from "./memory-faults.ts";
import { createMemoryFiles } from "./memory-images.ts";
import { createMemoryKernel } from "./memory-kernel.ts";
import { createMemoryState, emptyMaking, type MemoryRecords, memoryRoot, pathsOf } from "./memory-state.ts";
import { blockBytes, createMemoryWorld, devOf, loopsOf, type MemoryImage, type MemoryWorld } from "./memory-world.ts";

/**
 * A host in memory for tests of the operations. It keeps what a real one keeps (files, loop devices, mounts, frozen filesystems,
 * records), checks every call against ports.ts and throws a CallerFault when a rule of it was broken, and does wrong what it is told to.
 * What outlives a process is `world` and `records`; `restart` gives a new process on them.
 */
export interface MemoryHost {
  /** Of the present life. After `restart` the old one does nothing any more. */
  readonly host: Host;
  readonly world: MemoryWorld;
  readonly records: MemoryRecords;
  /** Calls of ports in order. */
  readonly calls: PortCall[];
  inject(...faults: readonly Fault[]): void;
  clearFaults(): void;
  pendingFaults(): readonly Fault[];
  /** As after a SIGKILL (or a clean stop): mounts, loop devices and frozen filesystems stay; unfinished makings are gone. */
  restart(): Host;
  /** A restart of the machine: also mounts, loop devices and freezes are gone, places stay. */
  reboot(): Host;
  imageOf(kind: "volumes" | "snapshots", id: string): MemoryImage;
  /** A workload's write; `value` stands for the content of the blocks. Refused while frozen. */
  write(volumeId: string, offset: bigint, blocks: number, value: number): void;
  /** The record's file becomes unreadable. With `hideName` its name is lost too. */
  breakRecord(kind: DriverRecord["kind"], id: string, how?: { readonly hideName: boolean }): void;
  /** Loop devices, mounts, frozen filesystems and unfinished files, as lines: empty when nothing is left behind. */
  leftovers(): readonly string[];
}

const folders = { volume: "volumes", snapshot: "snapshots", group: "groups" } as const;

export function createMemoryHost(setup?: Partial<Pick<MemoryWorld, "diskBytes" | "reflinks">>): MemoryHost {
  const world = Object.assign(createMemoryWorld(), setup);
  const records: MemoryRecords = { volumes: new Map(), snapshots: new Map(), groups: new Map(), broken: [] };
  const plan = createFaultPlan();
  let ids = 0;
  let ticks = 0;

  const start = (): { life: Life; host: Host } => {
    const life = plan.newLife();
    const files = createMemoryFiles(world, records);
    const kernel = createMemoryKernel(world, records, life);
    const host: Host = {
      state: createMemoryState(world, records, life),
      space: underFaults("space", files.space, life),
      images: underFaults("images", files.images, life),
      copier: underFaults("copier", files.copier, life),
      blocks: underFaults("blocks", files.blocks, life),
      trees: underFaults("trees", files.trees, life),
      loops: underFaults("loops", kernel.loops, life),
      mounts: underFaults("mounts", kernel.mounts, life),
      freezer: underFaults("freezer", kernel.freezer, life),
      places: underFaults("places", kernel.places, life),
      filesystems: underFaults("filesystems", kernel.filesystems, life),
      clock: {
        now: () => {
          ticks += 1;
          return new Date(Date.UTC(2026, 0, 1) + ticks).toISOString();
        },
      },
      newId: () => {
        ids += 1;
        return `00000000-0000-4000-8000-${String(ids).padStart(12, "0")}`;
      },
    };
    return { life, host };
  };

  let present = start();
  const restart = () => {
    present.life.kill();
    emptyMaking(world);
    present = start();
    return present.host;
  };

  return {
    get host() {
      return present.host;
    },
    world,
    records,
    calls: plan.calls,
    inject: plan.inject,
    clearFaults: plan.clear,
    pendingFaults: plan.pending,
    restart,
    reboot: () => {
      world.mounts.length = 0;
      world.loops.clear();
      world.frozen.clear();
      world.busy.clear();
      return restart();
    },
    imageOf: (folder, id) => {
      const file = world.files.get(pathsOf(folder, id).image);
      if (file?.kind !== "image") throw new CallerFault(`${folder}/${id} has no image`);
      return file;
    },
    write: (volumeId, offset, blocks, value) => {
      const path = pathsOf("volumes", volumeId).image;
      const file = world.files.get(path);
      if (file?.kind !== "image") throw new CallerFault(`volume ${volumeId} has no image`);
      if (loopsOf(world, path).some((loop) => world.frozen.has(devOf(loop.device))))
        throw new CallerFault(`volume ${volumeId} is frozen: a real writer would hang`);
      for (let at = 0; at < blocks; at += 1) file.blocks.set(offset / blockBytes + BigInt(at), value);
    },
    breakRecord: (kind, id, how) => {
      const folder = folders[kind];
      const record = records[folder].get(id);
      if (record === undefined) throw new CallerFault(`there is no ${kind} ${id}`);
      records[folder].delete(id);
      const file = `${memoryRoot}/${folder}/${id}/record.json`;
      const name = how?.hideName === true ? undefined : record.name;
      records.broken.push({ kind, id, file, name, reason: "it is cut off; restore it from a backup" });
    },
    leftovers: () => [
      ...[...world.loops.values()].map((loop) => `${loop.device} has ${loop.image}`),
      ...world.mounts.map((entry) => `${entry.source} is mounted at ${entry.mountPoint}`),
      ...[...world.frozen].map((dev) => `${dev} is frozen`),
      ...[...world.files.keys()]
        .filter((file) => !isRecorded(records, file))
        .map((file) => `${file} belongs to no record`),
    ],
  };
}

function isRecorded(records: MemoryRecords, file: string): boolean {
  const ids = [...records.volumes.keys(), ...records.snapshots.keys(), ...records.broken.map((each) => each.id)];
  return ids.some(
    (id) => file.startsWith(`${memoryRoot}/volumes/${id}/`) || file.startsWith(`${memoryRoot}/snapshots/${id}/`),
  );
}
