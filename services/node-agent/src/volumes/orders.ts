/** From an order to what is journalled of it, and from an end to its answer. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { PublishResult } from "../domain/answers.ts";
import type { VolumeRecord } from "../domain/events.ts";
import type { Refusal } from "../domain/floors.ts";
import { type MountLine, type MountView, marksUnder } from "../domain/mounts.ts";
import { isUnder, type VolumePaths } from "../domain/paths.ts";
import type { PermitFacts, VolumeRef, VolumeState } from "../domain/types.ts";
import type { HostDirs, PermitOrder, ReleaseOrder } from "../ports.ts";
import { nameVolume } from "./halts.ts";
import type { MountEnd } from "./volume-drive.ts";

export const storageOf = (ref: VolumeRef): string => `${ref.plugin}|${ref.externalId}`;

export const namesOf = (ref: VolumeRef) => ({ namespace: ref.namespace, volume: ref.volume, plugin: ref.plugin });

/** Publications of the volume that nobody in the journal explains. */
export function strays(view: MountView, volumePaths: VolumePaths, explained: readonly string[]): readonly MountLine[] {
  return view.under(volumePaths.publish).filter((line) => !explained.some((path) => isUnder(line.path, path)));
}

export const targetsOf = (volume: VolumeState | undefined): readonly string[] =>
  Object.values(volume?.claims ?? {}).map((claim) => claim.facts.target);

export function factsOf(
  { claim, contents }: PermitOrder,
  volumePaths: VolumePaths,
  hash: (text: string) => string,
): PermitFacts {
  const { oldestLiveEpoch: _, ...kept } = claim;
  const told = [
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

export async function publishAnswer(end: MountEnd, facts: PermitFacts, dirs: HostDirs): Promise<PublishResult> {
  switch (end.kind) {
    case "halted":
      return { kind: "uncertain", halt: end.halt };
    case "ended":
      return { kind: "not-mounted", failure: end.failure, message: end.message, epoch: facts.epoch };
    case "published": {
      const { line } = end;
      const node = line.fsType === "devtmpfs" ? `/dev${line.root}` : "";
      const number = node === "" ? undefined : await dirs.deviceNumber(node);
      const device = number === undefined ? {} : { device: { path: node, ...number } };
      return { kind: "published", hostPath: facts.target, mountId: line.id, epoch: facts.epoch, ...device };
    }
  }
}

export function heldByOther(other: VolumeState | undefined, ref: VolumeRef): Refusal {
  const [holder] = Object.keys(other?.claims ?? {});
  const name = other === undefined ? "another volume" : nameVolume(other.ref);
  const message = `${nameVolume(ref)} is the same storage as ${name}, which is held here; release that first`;
  return {
    kind: "refused",
    reason: "ACCESS_CONFLICT",
    message,
    ...(holder === undefined ? {} : { holderClaimUid: holder }),
  };
}

export function journalFull(why: string): HoldfastError {
  return new HoldfastError({ kind: "exhausted", reason: "JOURNAL_FULL", message: why });
}

export function journalDamaged(why: string): HoldfastError {
  return new HoldfastError({ kind: "precondition", reason: "JOURNAL_DAMAGED", message: why });
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
