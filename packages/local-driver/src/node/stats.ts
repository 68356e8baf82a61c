import type { VolumeRecord } from "../domain/records.ts";
import type { Condition, VolumeStats } from "../operations.ts";
import type { FilesystemUsage } from "../ports.ts";
import { stagesReadonly } from "./capability-rules.ts";
import { describeMount, type Here, lookAt } from "./mounted.ts";
import { type NodeParts, volumeOf } from "./node-parts.ts";
import { messageOf } from "./taking-back.ts";
import { type UseAt, useAt } from "./use-at.ts";

/** NodeGetVolumeStats: what there is to say of a volume in use; a volume in trouble is an answer, not an error. */
export async function stats(
  parts: NodeParts,
  input: { readonly volumeId: string; readonly path: string },
  signal: AbortSignal,
): Promise<VolumeStats> {
  const record = volumeOf(parts, input.volumeId);
  const use = await useAt(parts, record, input.path);
  const here = (await lookAt(parts, record)).at(use.path);
  // By the staging: a target that is read-only for its workload has a filesystem that is written.
  const staged = record.staging?.capability ?? use.capability;
  const writable = !stagesReadonly(record, staged, parts.settings);
  const troubles = [await imageTrouble(parts, record, signal), mountTrouble(use, here, writable)].filter(isGiven);

  const { access } = use.capability;
  let usage: FilesystemUsage | undefined;
  if (access === "mount" && here.kind === "volume") {
    try {
      usage = await parts.host.filesystems.usage(use.path, signal);
    } catch (error) {
      if (signal.aborted || troubles.length === 0) throw error;
      troubles.push(`its usage cannot be read: ${messageOf(error)}`);
    }
  }
  return { access, totalBytes: usage?.bytes.total ?? record.capacityBytes, usage, condition: conditionOf(troubles) };
}

const isGiven = (text: string | undefined): text is string => text !== undefined;

const conditionOf = (troubles: readonly string[]): Condition =>
  troubles.length === 0 ? { abnormal: false, message: "in order" } : { abnormal: true, message: troubles.join("; ") };

async function imageTrouble(
  { host }: NodeParts,
  record: VolumeRecord,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (record.type !== "image") return undefined;
  const { image } = host.state.volumes.paths(record.id);
  try {
    await host.images.sizeOf(image);
    return undefined;
  } catch (error) {
    if (signal.aborted || (await host.places.exists(image))) throw error;
    return `its image ${image} is gone: what is in use lives until it is unmounted; stop writing, and copy what is needed`;
  }
}

export function mountTrouble(use: UseAt, here: Here, writable: boolean): string | undefined {
  if (use.capability.access === "block" && use.kind === "staging") return undefined;
  if (here.kind === "nothing")
    return `nothing is mounted at ${use.path} any more; call NodeStageVolume and NodePublishVolume again`;
  if (here.kind === "foreign") return `something else is mounted at ${describeMount(here.entry)}`;
  const { superOptions } = here.entry;
  if (here.kind === "device" || !writable) return undefined;
  const sign = broken.find((option) => superOptions.includes(option));
  return sign === undefined
    ? undefined
    : `the kernel has stopped writing to the filesystem at ${use.path} (${sign}); see the kernel log, unpublish, unstage, and stage it again`;
}

/** How ext4 and xfs show in the mount table that they have given up on their device. */
const broken: readonly string[] = ["shutdown", "emergency_ro", "ro"];
