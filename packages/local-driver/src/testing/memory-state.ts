import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord, GroupRecord, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { BrokenRecord, ContentPaths, Records, State } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";
import { Killed, type Life, underFaults } from "./memory-faults.ts";
import { contentsOf, loopsOf, type MemoryWorld, spelling } from "./memory-world.ts";

export const memoryRoot = "/state";

const folders = { volume: "volumes", snapshot: "snapshots", group: "groups" } as const;
type Folder = (typeof folders)[DriverRecord["kind"]];

/** A record file that cannot be read. Without a name it may bear any. */
export interface MemoryBroken extends BrokenRecord {
  readonly name: string | undefined;
}

/** The records on disk: what a restart finds. */
export interface MemoryRecords {
  readonly volumes: Map<string, VolumeRecord>;
  readonly snapshots: Map<string, SnapshotRecord>;
  readonly groups: Map<string, GroupRecord>;
  readonly broken: MemoryBroken[];
}

export const pathsOf = (folder: Folder | "making", id: string): ContentPaths => ({
  data: `${memoryRoot}/${folder}/${id}/data`,
  image: `${memoryRoot}/${folder}/${id}/image`,
});

export function createMemoryState(world: MemoryWorld, records: MemoryRecords, life: Life): State {
  const volumes = recordsOf("volume", records.volumes, world, records, life);
  const snapshots = recordsOf("snapshot", records.snapshots, world, records, life);
  const groups = recordsOf("group", records.groups, world, records, life);
  const sync = ["all", "get", "byName", "paths"] as const;
  return {
    volumes: underFaults("volumes", volumes, life, sync),
    snapshots: underFaults("snapshots", snapshots, life, sync),
    groups: underFaults("groups", groups, life, sync),
    broken: records.broken,
    settled: () => life.run("state.settled", [], async () => undefined),
  };
}

/** What a start does before the first call: an unfinished making is gone. */
export function emptyMaking(world: MemoryWorld): void {
  for (const file of [...world.files.keys()]) if (file.startsWith(`${memoryRoot}/making/`)) world.files.delete(file);
}

function recordsOf<R extends DriverRecord>(
  kind: R["kind"],
  stored: Map<string, R>,
  world: MemoryWorld,
  { broken }: MemoryRecords,
  life: Life,
): Records<R> {
  const folder = folders[kind];
  const refuseBroken = (found: MemoryBroken | undefined) => {
    if (found === undefined) return;
    throw new DriverError("FAILED_PRECONDITION", `${found.file} cannot be read: ${found.reason}`);
  };
  const brokenId = (id: string) => broken.find((each) => each.kind === kind && each.id === id);
  const brokenName = (name: string) =>
    broken.find((each) => each.kind === kind && (each.name === undefined || each.name === name));

  return {
    all: () => [...stored.values()].map((record) => structuredClone(record)),
    get: (id) => {
      refuseBroken(brokenId(id));
      return structuredClone(stored.get(id));
    },
    byName: (name) => {
      for (const record of stored.values()) if (record.name === name) return structuredClone(record);
      refuseBroken(brokenName(name));
      return undefined;
    },
    paths: (id) => pathsOf(folder, id),
    add: async (record, fill) => {
      if (record.kind !== kind) throw new CallerFault(`a ${record.kind} was added to the ${folder}`);
      if (stored.has(record.id)) throw new CallerFault(`${kind} ${record.id} was added twice`);
      if ([...stored.values()].some((each) => each.name === record.name))
        throw new CallerFault(`a second ${kind} named ${record.name} was added`);
      refuseBroken(brokenName(record.name));
      const making = pathsOf("making", record.id);
      try {
        await fill(making);
        if (life.dead()) throw new Killed();
        policeContents(record, world, making);
      } catch (error) {
        if (!life.dead()) for (const file of Object.values(making)) world.files.delete(file);
        throw error;
      }
      for (const place of ["data", "image"] as const) {
        const file = world.files.get(making[place]);
        if (file === undefined) continue;
        world.files.delete(making[place]);
        world.files.set(pathsOf(folder, record.id)[place], file);
      }
      stored.set(record.id, structuredClone(record));
    },
    change: async (id, change) => {
      refuseBroken(brokenId(id));
      const before = stored.get(id);
      if (before === undefined) throw new DriverError("NOT_FOUND", `there is no ${kind} ${id}`);
      const after = change(structuredClone(before));
      if (after.id !== before.id || after.name !== before.name || after.kind !== before.kind)
        throw new CallerFault(`${kind} ${id}: a change may not give another identity`);
      if (before.kind === "volume" && after.kind === "volume") policeVolumeChange(before, after, world);
      stored.set(id, structuredClone(after));
      return structuredClone(after);
    },
    remove: async (id) => {
      refuseBroken(brokenId(id));
      const record = stored.get(id);
      if (record === undefined) return;
      if (record.kind === "volume") policeVolumeRemoval(record, world);
      stored.delete(id);
      for (const file of Object.values(pathsOf(folder, id))) world.files.delete(file);
    },
  };
}

function policeContents(record: DriverRecord, world: MemoryWorld, { data, image }: ContentPaths): void {
  const wanted = record.kind === "group" ? undefined : record.type;
  const has = (path: string) => world.files.has(path);
  if (has(image) !== (wanted === "image") || has(data) !== (wanted === "directory"))
    throw new CallerFault(`${record.kind} ${record.id} was filled with other contents than its record says`);
}

function policeVolumeChange(before: VolumeRecord, after: VolumeRecord, world: MemoryWorld): void {
  const mounted = (path: string) => world.mounts.some((entry) => entry.mountPoint === spelling(world, path));
  const staged = before.staging?.path;
  if (staged !== undefined && after.staging?.path !== staged && mounted(staged))
    throw new CallerFault(`volume ${before.id}: the staging at ${staged} was forgotten while it is mounted`);
  for (const { path } of before.publications) {
    if (after.publications.some((each) => each.path === path)) continue;
    if (mounted(path)) throw new CallerFault(`volume ${before.id}: ${path} was forgotten while it is mounted`);
    if (world.places.has(spelling(world, path)))
      throw new CallerFault(`volume ${before.id}: ${path} was forgotten and is still there`);
  }
  const file = world.files.get(pathsOf("volumes", before.id).image);
  if (file?.kind !== "image") return;
  if (after.capacityBytes < before.capacityBytes) throw new CallerFault(`volume ${before.id} was made smaller`);
  if (after.capacityBytes > before.capacityBytes && file.bytes < after.capacityBytes)
    throw new CallerFault(`volume ${before.id}: a capacity was stored that its image has not`);
  if (before.format === undefined && after.format?.finished === false && contentsOf(file).kind !== "blank")
    throw new CallerFault(`volume ${before.id}: an intent to format contents that are not blank`);
  if (after.format?.finished === true && before.format?.finished !== true && contentsOf(file).kind !== "filesystem")
    throw new CallerFault(`volume ${before.id}: a format was called finished that is not there`);
}

function policeVolumeRemoval(record: VolumeRecord, world: MemoryWorld): void {
  const { data, image } = pathsOf("volumes", record.id);
  const held = world.mounts.find((entry) => entry.root === data);
  if (held !== undefined) throw new CallerFault(`volume ${record.id} was removed while ${held.mountPoint} is mounted`);
  const [loop] = loopsOf(world, image);
  if (loop !== undefined) throw new CallerFault(`volume ${record.id} was removed while ${loop.device} has its image`);
}
