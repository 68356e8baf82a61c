/**
 * NodeStageVolume.
 *
 * T1 The intent (record.staging) is stored before the first mount or loop device, and forgotten only when none is left.
 * T2 What is mounted is looked up in the mount table before and after; a mount that is not of this volume is never touched.
 * T3 A block volume has nothing staged: a loop device is there when, and only when, a mount or a target uses it. So publish attaches it.
 */
import type { Capability, Staging, VolumeRecord } from "../domain/records.ts";
import type { StageInput } from "../operations.ts";
import { differences, fsTypeOf, mountOptions, stagesReadonly, useProblem } from "./capability-rules.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { mountImage, refuseMounted, settleIntent } from "./image-filesystem.ts";
import { livePublications } from "./live-publications.ts";
import { describeMount, type Here, lookAt, type Mounted, notThere } from "./mounted.ts";
import { type NodeParts, refusal, volumeOf } from "./node-parts.ts";
import { takingBack } from "./taking-back.ts";
import { foreignMount, unmount } from "./unmount.ts";

export async function stage(parts: NodeParts, input: StageInput, signal: AbortSignal): Promise<void> {
  const { host, settings } = parts;
  const record = volumeOf(parts, input.volumeId);
  const refuse = (text: string) => refusal(parts, record, "FAILED_PRECONDITION", text);
  const path = await host.places.resolve(input.stagingPath);
  if (record.staging !== undefined) await refuseOther(parts, record, record.staging, input, path);
  const problem = useProblem(record, input.capability, settings);
  if (problem !== undefined) throw refusal(parts, record, problem.code, problem.text);

  const mounted = await lookAt(parts, record);
  const here = mounted.at(path);
  if (here.kind === "foreign") throw refuse(foreignMount(describeMount(here.entry)));
  if (here.kind === "nothing" && !(await host.places.exists(path)))
    throw refuse(`the staging path ${path} is not there; the caller makes it before NodeStageVolume`);
  const live = await livePublications(parts, record, mounted);
  const readonly = stagesReadonly(record, input.capability, settings);
  // A volume in use is as it should be: it is not touched for a repeat.
  if (here.kind === "volume" && here.readonly === readonly && live.length > 0) return;
  if (here.kind !== "nothing" && live.length > 0)
    throw refuse(`${describeMount(here.entry)} is there otherwise than asked for, and in use; unpublish it first`);

  const staging: Staging = { path: input.stagingPath, capability: input.capability };
  const bring = input.capability.access === "block" ? stageBlock : stageMount;
  await takingBack(
    parts,
    {
      act: async () => {
        await host.state.volumes.change(record.id, (before) => ({ ...before, staging: before.staging ?? staging })); // T1
        await bring(parts, record, { path, readonly, capability: input.capability, mounted }, signal);
      },
      undo: (own) => takeBack(parts, record, { path, forget: live.length === 0 }, own),
      cure: "NodeUnstageVolume",
    },
    signal,
  );
}

interface Wanted {
  readonly path: string;
  readonly readonly: boolean;
  readonly capability: Capability;
  readonly mounted: Mounted;
}

async function stageMount(
  parts: NodeParts,
  record: VolumeRecord,
  { path, readonly, capability, mounted: before }: Wanted,
  signal: AbortSignal,
): Promise<void> {
  const { host, settings } = parts;
  const fsType = fsTypeOf(record, capability, settings);
  const isAsWanted = (here: Here) => here.kind === "volume" && here.readonly === readonly;
  // What a killed life mounted may have missed its growth.
  let mayBeSmall = fsType === "xfs";
  if (!isAsWanted(before.at(path))) {
    // A life that was killed between the two halves of a read-only bind.
    const mounted = await unmount(parts, record, path, before, signal);
    const options = mountOptions(record, capability, readonly);
    if (record.type === "image")
      mayBeSmall = await mountImage(parts, record, { path, fsType, options, readonly }, mounted, signal);
    else await host.mounts.bind(host.state.volumes.paths(record.id).data, path, { readonly }, signal);
  }
  const after = await lookAt(parts, record);
  const here = after.at(path);
  if (!isAsWanted(here)) throw refusal(parts, record, "INTERNAL", notThere(path, here)); // T2
  const loop = after.loops.find((each) => after.filesystemsOn(each).length > 0);
  if (mayBeSmall && loop !== undefined && !readonly) await host.images.fitMounted(loop.device, path, fsType, signal);
  if (capability.mountGroup !== "" && !readonly)
    await host.filesystems.giveToGroup(path, capability.mountGroup, signal);
}

async function stageBlock(
  parts: NodeParts,
  record: VolumeRecord,
  { path, mounted }: Wanted,
  signal: AbortSignal,
): Promise<void> {
  refuseMounted(parts, record, mounted);
  await unmount(parts, record, path, mounted, signal);
  await settleIntent(parts, record, signal);
}

async function takeBack(
  parts: NodeParts,
  record: VolumeRecord,
  { path, forget }: { readonly path: string; readonly forget: boolean },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const done: string[] = [];
  const before = await lookAt(parts, record);
  const after = await unmount(parts, record, path, before, signal);
  if (before.at(path).kind !== "nothing") done.push(`the mount at ${path}`);
  for (const { device } of await letGoOfIdleLoops(parts, record, after, signal)) done.push(device);
  // While it is published it stays staged in the record, as it was before.
  if (forget) await parts.host.state.volumes.change(record.id, (before) => ({ ...before, staging: undefined })); // T1
  return done;
}

/** "Volume published but is incompatible: 6 ALREADY_EXISTS"; a volume is staged at one path of a node. */
async function refuseOther(
  parts: NodeParts,
  record: VolumeRecord,
  staging: Staging,
  { capability }: StageInput,
  path: string,
): Promise<void> {
  const staged = await parts.host.places.resolve(staging.path);
  if (staged !== path)
    throw refusal(
      parts,
      record,
      "FAILED_PRECONDITION",
      `it is staged at ${staging.path}; call NodeUnstageVolume for that path before it is staged at ${path}`,
    );
  const differing = differences(record, staging.capability, capability, parts.settings);
  if (differing.length > 0)
    throw refusal(
      parts,
      record,
      "ALREADY_EXISTS",
      `it is staged at ${path} with another ${differing.join(", ")}; call NodeUnstageVolume first`,
    );
}
