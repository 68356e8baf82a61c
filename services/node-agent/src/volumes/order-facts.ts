/** What is journalled of an order. */
import type { VolumeRecord } from "../domain/events.ts";
import { type MountView, marksUnder } from "../domain/mounts.ts";
import { isUnder, type VolumePaths } from "../domain/paths.ts";
import type { PermitFacts, VolumeRef, VolumeState } from "../domain/types.ts";
import type { PermitOrder, ReleaseOrder } from "../ports.ts";

/** Two records of one piece of storage have this in common. */
export const storageOf = (ref: VolumeRef): string => `${ref.plugin}|${ref.externalId}`;

export const namesOf = (ref: VolumeRef) => ({ namespace: ref.namespace, volume: ref.volume, plugin: ref.plugin });

export const targetsOf = (volume: VolumeState | undefined): readonly string[] =>
  Object.values(volume?.claims ?? {}).map((claim) => claim.facts.target);

export function factsOf(
  { claim, contents }: PermitOrder,
  volumePaths: VolumePaths,
  hash: (text: string) => string,
): PermitFacts {
  const { oldestLiveEpoch: _, ...kept } = claim;
  const told = [
    [claim.accessMode, claim.attachmentMode, claim.readOnly, claim.fsType],
    sorted(contents.volumeContext),
    sorted(contents.publishContext),
    contents.mountFlags,
    contents.volumeMountGroup,
  ];
  const digest = hash(JSON.stringify(told)).slice(0, 32);
  return { ...kept, digest, target: volumePaths.target(claim.claimUid) };
}

const sorted = (map: Readonly<Record<string, string>>) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));

/** Nothing is known of the claim but its name; the strictest mode makes the strictest look before the release. */
export function adoptedFacts({ claimUid, epoch }: ReleaseOrder, target: string, nodeEpoch: number): PermitFacts {
  return {
    claimUid,
    workload: "",
    alias: "",
    epoch,
    nodeEpoch,
    accessMode: "UNKNOWN",
    attachmentMode: "FILE_SYSTEM",
    readOnly: false,
    fsType: "",
    digest: "",
    target,
  };
}

/** What a lost journal left, with what it shows: looked for everywhere before the release, as for any other volume. */
export function adoptedRecord(
  ref: VolumeRef,
  facts: PermitFacts,
  stageNeeded: boolean,
  volumePaths: VolumePaths,
  view: MountView,
): VolumeRecord {
  const paths = [volumePaths.staging, volumePaths.publish];
  const marks = marksUnder(view, paths);
  const before = view
    .sharing(marks)
    .filter((line) => !paths.some((path) => isUnder(line.path, path)))
    .map((line) => line.id);
  return { type: "adopted", ref, facts, stageNeeded, stagePath: volumePaths.staging, marks, before };
}
