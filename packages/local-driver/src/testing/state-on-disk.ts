import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import type { GroupRecord, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { MountEntry } from "../ports.ts";
import { type OpenState, openState } from "../state/open-state.ts";
import type { DiskLife } from "./memory-disk.ts";

export const stateRoot = "/state";

export interface StateOnDisk {
  readonly state: OpenState;
  readonly log: MemoryLogger;
}

/** A life of the state on a memory disk. */
export async function stateOnDisk(life: DiskLife, mountPoints: readonly string[] = []): Promise<StateOnDisk> {
  const log = createMemoryLogger();
  const { files, removeTree } = life;
  const state = await openState({
    stateDir: { path: await files.openRoot(stateRoot) },
    files,
    removeTree,
    mounts: { table: async () => mountPoints.map(mountedAt) },
    run: () => Promise.reject(new Error("no program is to be run here")),
    log,
    signal: new AbortController().signal,
  });
  return { state, log };
}

function mountedAt(mountPoint: string): MountEntry {
  return { mountPoint, root: "/", dev: "7:1", fsType: "ext4", source: "/dev/loop1", options: [], superOptions: [] };
}

export function volumeRecord(id: string, name: string, given: Partial<VolumeRecord> = {}): VolumeRecord {
  return {
    kind: "volume",
    id,
    name,
    type: "image",
    capacityBytes: 2n ** 60n + 1n,
    createdAt: "2026-01-02T03:04:05.678Z",
    parameters: { type: "image" },
    source: undefined,
    mutable: {},
    format: undefined,
    attachments: [],
    staging: undefined,
    publications: [],
    ...given,
  };
}

export function snapshotRecord(id: string, name: string, given: Partial<SnapshotRecord> = {}): SnapshotRecord {
  return {
    kind: "snapshot",
    id,
    name,
    volumeId: "v1",
    type: "image",
    sizeBytes: 4096n,
    format: { fsType: "ext4", finished: true },
    createdAt: "2026-01-02T03:04:05.678Z",
    parameters: {},
    groupId: undefined,
    ...given,
  };
}

export function groupRecord(id: string, name: string, given: Partial<GroupRecord> = {}): GroupRecord {
  return {
    kind: "group",
    id,
    name,
    createdAt: "2026-01-02T03:04:05.678Z",
    parameters: {},
    volumeIds: ["v1"],
    snapshotIds: ["s1"],
    ...given,
  };
}
