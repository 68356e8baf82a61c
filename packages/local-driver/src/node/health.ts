/** NodeGetVolumeHealth and NodeGetStorageHealth: what is adverse, for a caller whose call has failed or who places volumes. */
import { faultOf } from "../controller/sound-image.ts";
import { DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { HealthEntry, NodeOperations } from "../operations.ts";
import { stagesReadonly } from "./capability-rules.ts";
import { lookAt } from "./mounted.ts";
import { type NodeParts, volumeOf } from "./node-parts.ts";
import { mountTrouble } from "./stats.ts";

type VolumeEntry = HealthEntry<"DATA_LOSS" | "INACCESSIBLE">;

/** Less than a record, its file system's journal, and the next write need. */
const fullBelowBytes = 16n << 20n;

export async function volumeHealth(parts: NodeParts, input: { readonly volumeId: string }): Promise<VolumeEntry[]> {
  const record = volumeOf(parts, input.volumeId);
  return [...(await contentsHealth(parts, record)), ...(await useHealth(parts, record))];
}

async function contentsHealth({ host }: NodeParts, record: VolumeRecord): Promise<VolumeEntry[]> {
  try {
    const fault = await faultOf(host, record);
    return fault === undefined ? [] : [{ status: "DATA_LOSS", reason: "ContentsDamaged", message: fault }];
  } catch (error) {
    if (!(error instanceof DriverError)) throw error;
    const message = `its contents cannot be looked at: ${error.message}`;
    return [{ status: "INACCESSIBLE", reason: "ContentsUnreadable", message }];
  }
}

/** Of a volume that is in use: of the others there is nothing on this node that could be gone. */
async function useHealth(parts: NodeParts, record: VolumeRecord): Promise<VolumeEntry[]> {
  const { staging, publications } = record;
  const mounts = staging?.capability.access === "mount" ? [staging] : [];
  if (mounts.length + publications.length === 0) return [];
  const mounted = await lookAt(parts, record);
  if (record.type === "image" && mounted.loops.length === 0)
    return [
      {
        status: "INACCESSIBLE",
        reason: "LoopDeviceGone",
        message: "the loop device of its image was taken away; unpublish, unstage, and stage it again",
      },
    ];
  const troubles = await Promise.all(
    mounts.map(async ({ path: given, capability }) => {
      const path = await parts.host.places.resolve(given);
      const writable = !stagesReadonly(record, capability, parts.settings);
      return mountTrouble({ kind: "staging", path, capability }, mounted.at(path), writable);
    }),
  );
  return troubles.flatMap((message) =>
    message === undefined ? [] : [{ status: "INACCESSIBLE" as const, reason: "NotMountedRight", message }],
  );
}

export async function storageHealth({
  host,
}: Pick<NodeParts, "host">): Promise<Awaited<ReturnType<NodeOperations["storageHealth"]>>> {
  const free = await host.space.freeBytes();
  if (free >= fullBelowBytes) return [];
  const message = `the disk of the state directory has ${free} bytes left: writes to volumes fail; free space on it`;
  return [{ status: "STORAGE_DEGRADED", reason: "DiskFull", message }];
}
