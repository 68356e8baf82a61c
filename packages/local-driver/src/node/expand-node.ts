import type { VolumeRecord } from "../domain/records.ts";
import type { NodeOperations } from "../operations.ts";
import { fsTypeOf } from "./capability-rules.ts";
import { describeMount, lookAt } from "./mounted.ts";
import { type NodeParts, refusal, volumeOf } from "./node-parts.ts";
import { foreignMount } from "./unmount.ts";
import { type UseAt, useAt } from "./use-at.ts";

/**
 * NodeExpandVolume: the image has grown already, by ControllerExpandVolume; its device and filesystem follow. Never shrinks: whoever asks
 * for less is told what there is.
 */
export async function expandNode(
  parts: NodeParts,
  input: Parameters<NodeOperations["expand"]>[0],
  signal: AbortSignal,
): Promise<{ readonly capacityBytes: bigint }> {
  const { host } = parts;
  const record = volumeOf(parts, input.volumeId);
  const use = await useAt(parts, record, input.path);
  const { capacityBytes } = record;
  refuseOtherCapacity(parts, record, input.capacity);
  if (input.capability !== undefined && input.capability.access !== use.capability.access)
    throw refusal(
      parts,
      record,
      "INVALID_ARGUMENT",
      `${use.path} is used as ${use.capability.access}, and the call says ${input.capability.access}`,
    );
  if (record.type === "directory") return { capacityBytes };

  const mounted = await lookAt(parts, record);
  const here = mounted.at(use.path);
  if (here.kind === "foreign")
    throw refusal(parts, record, "FAILED_PRECONDITION", foreignMount(describeMount(here.entry)));
  for (const loop of mounted.loops) await host.loops.refresh(loop, signal);
  if (use.capability.access === "mount") await growFilesystem(parts, record, use, signal);
  return { capacityBytes };
}

async function growFilesystem(parts: NodeParts, record: VolumeRecord, use: UseAt, signal: AbortSignal): Promise<void> {
  const { host, settings } = parts;
  const refuse = (text: string) => refusal(parts, record, "FAILED_PRECONDITION", text);
  // By the staging: a target may be mounted read-only.
  const staging = record.staging === undefined ? use : await useAt(parts, record, record.staging.path);
  const mounted = await lookAt(parts, record);
  const here = mounted.at(staging.path);
  if (here.kind === "foreign")
    throw refuse(`something that is not of this volume is mounted at ${describeMount(here.entry)}; unmount it first`);
  const loop = here.kind === "volume" ? mounted.loops.find(({ dev }) => dev === here.entry.dev) : undefined;
  if (here.kind !== "volume" || loop === undefined)
    throw refuse(`nothing is mounted at ${staging.path}; call NodeStageVolume, which grows the filesystem too`);
  if (here.readonly)
    throw refuse(
      `it is staged read-only, and a filesystem grows only when it can be written; unstage it, and stage it for writing`,
    );
  const fsType = fsTypeOf(record, staging.capability, settings);
  await host.images.fitMounted(loop.device, staging.path, fsType, signal);
}

/** "Unsupported capacity_range: 11 OUT_OF_RANGE" */
function refuseOtherCapacity(
  parts: NodeParts,
  record: VolumeRecord,
  { requiredBytes, limitBytes }: Parameters<NodeOperations["expand"]>[0]["capacity"],
): void {
  const { capacityBytes } = record;
  if (requiredBytes > capacityBytes)
    throw refusal(
      parts,
      record,
      "OUT_OF_RANGE",
      `it has ${capacityBytes} bytes, and ${requiredBytes} were asked for; call ControllerExpandVolume first`,
    );
  if (limitBytes > 0n && limitBytes < capacityBytes)
    throw refusal(
      parts,
      record,
      "OUT_OF_RANGE",
      `it has ${capacityBytes} bytes, more than the limit of ${limitBytes}; a volume is never made smaller`,
    );
}
