/**
 * NodePublishVolume.
 *
 * P1 The intent (a publication in the record) is stored before the target, its mount or its loop device is made.
 * P2 A publication is forgotten only when its mount, its loop device (if nothing else uses it) and its target are gone.
 * P3 A target that may only be read can only be read: a read-only mount, and for a device a read-only loop.
 * P4 What is mounted is looked up in the mount table before and after; a mount that is not of this volume is never touched.
 */
import type { Access, Publication, VolumeRecord } from "../domain/records.ts";
import type { PublishInput } from "../operations.ts";
import type { LoopDevice } from "../ports.ts";
import { differences, publishViolations, secondWriter, stagesReadonly, useProblem } from "./capability-rules.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { refuseMounted, settleIntent } from "./image-filesystem.ts";
import { livePublications, publicationAt } from "./live-publications.ts";
import { describeMount, type Here, lookAt, type Mounted, notThere } from "./mounted.ts";
import { type NodeParts, refusal, volumeOf } from "./node-parts.ts";
import { takingBack } from "./taking-back.ts";
import { forgetTarget, rememberTarget } from "./targets.ts";
import { foreignMount, unmount } from "./unmount.ts";

export async function publish(parts: NodeParts, input: PublishInput, signal: AbortSignal): Promise<void> {
  const { host } = parts;
  const record = volumeOf(parts, input.volumeId);
  const target = await host.places.resolve(input.targetPath);
  const publication: Publication = {
    path: input.targetPath,
    readonly: input.readonly,
    capability: input.capability,
  };
  const known = await publicationAt(parts, record, target);
  if (known !== undefined) refuseOther(parts, record, known, publication);
  const staged = await stagedPath(parts, record, input, target);
  const mounted = await lookAt(parts, record);
  const here = mounted.at(target);
  if (here.kind === "foreign")
    throw refusal(parts, record, "FAILED_PRECONDITION", foreignMount(describeMount(here.entry)));
  const readonly = input.readonly || stagesReadonly(record, input.capability, parts.settings);
  const wanted: Wanted = { target, staged, readonly, access: input.capability.access, mounted };
  if (known !== undefined && isAsWanted(here, wanted)) return;
  if (!readonly) await refuseSecondWriter(parts, record, mounted, publication, known);
  if (wanted.access === "mount") refuseUnstaged(parts, record, mounted, staged);

  let ours = known !== undefined;
  await takingBack(
    parts,
    {
      act: async () => {
        if (known === undefined) {
          ours = !(await host.places.exists(target));
          await rememberTarget(parts, record, publication); // P1
        }
        if (!isAsWanted(here, wanted)) await bring(parts, record, wanted, signal);
        const after = (await lookAt(parts, record)).at(target);
        if (!isAsWanted(after, wanted)) throw refusal(parts, record, "INTERNAL", notThere(target, after)); // P4
      },
      undo: (own) => takeBack(parts, record, { path: known?.path ?? publication.path, target, ours }, own),
      cure: "NodeUnpublishVolume",
    },
    signal,
  );
}

interface Wanted {
  readonly target: string;
  readonly staged: string;
  readonly readonly: boolean;
  readonly access: Access;
  readonly mounted: Mounted;
}

const isAsWanted = (here: Here, { readonly, access }: Wanted): boolean =>
  (here.kind === "device" || here.kind === "volume") &&
  here.kind === (access === "block" ? "device" : "volume") &&
  here.readonly === readonly; // P3

async function bring(parts: NodeParts, record: VolumeRecord, wanted: Wanted, signal: AbortSignal): Promise<void> {
  const { places, mounts } = parts.host;
  const { target, staged, readonly, access } = wanted;
  // A life that was killed half-way, or a mount that the record does not know: never in a workload's hands as it is.
  const mounted = await unmount(parts, record, target, wanted.mounted, signal);
  if (access === "block") {
    const loop = await deviceFor(parts, record, { readonly, mounted }, signal);
    await places.makeFile(target);
    await mounts.bind(loop.device, target, { readonly }, signal);
  } else {
    await places.makeDirectory(target);
    await mounts.bind(staged, target, { readonly }, signal);
  }
}

/** One read-write and one read-only device at most for each image: all targets of a kind share one. */
async function deviceFor(
  parts: NodeParts,
  record: VolumeRecord,
  { readonly, mounted }: Pick<Wanted, "readonly" | "mounted">,
  signal: AbortSignal,
): Promise<LoopDevice> {
  refuseMounted(parts, record, mounted);
  await settleIntent(parts, record, signal);
  // A device that a killed life left may not know the size of the image.
  const gone = await letGoOfIdleLoops(parts, record, mounted, signal);
  const held = mounted.loops.find((loop) => loop.readonly === readonly && !gone.includes(loop));
  const { loops, state } = parts.host;
  return held ?? (await loops.attach(state.volumes.paths(record.id).image, { readonly }, signal));
}

async function takeBack(
  parts: NodeParts,
  record: VolumeRecord,
  { path, target, ours }: { readonly path: string; readonly target: string; readonly ours: boolean },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const done: string[] = [];
  const before = await lookAt(parts, record);
  const after = await unmount(parts, record, target, before, signal);
  if (before.at(target).kind !== "nothing") done.push(`the mount at ${target}`);
  for (const { device } of await letGoOfIdleLoops(parts, record, after, signal)) done.push(device);
  if (await parts.host.places.exists(target)) {
    // The target is the plugin's to make and to remove; one that was there before, and is not empty, stays.
    const removed = await parts.host.places.remove(target).then(
      () => true,
      (error: unknown) => {
        if (ours) throw error;
        return false;
      },
    );
    if (removed) done.push(`the target ${target}`);
  }
  await forgetTarget(parts, record, path); // P2
  return done;
}

/** As the mount table spells it. */
async function stagedPath(
  parts: NodeParts,
  record: VolumeRecord,
  input: PublishInput,
  target: string,
): Promise<string> {
  const { staging } = record;
  const refuse = (text: string) => refusal(parts, record, "FAILED_PRECONDITION", text);
  if (staging === undefined || input.stagingPath === "")
    throw refuse(`it is not staged; call NodeStageVolume before NodePublishVolume`);
  const staged = await parts.host.places.resolve(staging.path);
  if ((await parts.host.places.resolve(input.stagingPath)) !== staged)
    throw refuse(`it is staged at ${staging.path}, and not at ${input.stagingPath}`);
  if (target === staged || target.startsWith(`${staged}/`))
    throw refusal(
      parts,
      record,
      "INVALID_ARGUMENT",
      `the target path ${target} is the staging path or inside of it; a target needs a place of its own`,
    );
  const problem = useProblem(record, input.capability, parts.settings);
  if (problem !== undefined) throw refusal(parts, record, problem.code, problem.text);
  const violations = publishViolations(record, staging, input, parts.settings);
  if (violations.length > 0) throw refuse(violations.join("; "));
  return staged;
}

function refuseUnstaged(parts: NodeParts, record: VolumeRecord, mounted: Mounted, staged: string): void {
  const here = mounted.at(staged);
  if (here.kind === "volume") return;
  const found = here.kind === "nothing" ? "nothing is mounted there" : `there is ${describeMount(here.entry)}`;
  const text = `it was staged at ${staged}, and now ${found}; call NodeStageVolume again`;
  throw refusal(parts, record, "FAILED_PRECONDITION", text);
}

/** "Volume published but is incompatible: 6 ALREADY_EXISTS" */
function refuseOther(parts: NodeParts, record: VolumeRecord, known: Publication, wanted: Publication): void {
  const differing = [
    ...differences(record, known.capability, wanted.capability, parts.settings),
    ...(known.readonly === wanted.readonly ? [] : ["readonly"]),
  ];
  if (differing.length === 0) return;
  const text = `it is published at ${known.path} with another ${differing.join(", ")}; call NodeUnpublishVolume first`;
  throw refusal(parts, record, "ALREADY_EXISTS", text);
}

async function refuseSecondWriter(
  parts: NodeParts,
  record: VolumeRecord,
  mounted: Mounted,
  wanted: Publication,
  known: Publication | undefined,
): Promise<void> {
  const live = await livePublications(parts, record, mounted);
  const writer = secondWriter(
    wanted,
    live.filter(({ path }) => path !== known?.path),
  );
  if (writer === undefined) return;
  const text = `it is published for writing at ${writer.path}, and SINGLE_NODE_SINGLE_WRITER allows one writer; unpublish that first, or publish read-only`;
  throw refusal(parts, record, "FAILED_PRECONDITION", text);
}
