/**
 * Volumes that are made for the node of their first claim. Until then nothing is called for them; from then on the place is part of the
 * CreateVolume that is repeated word for word, and is not changed any more.
 */
import { type Change, foldClaims, noChange, volumeNote } from "./change.ts";
import { memberFailed } from "./claim-change.ts";
import type { Moment } from "./moment.ts";
import { noAttempts } from "./outcome.ts";
import type { Segments, VolumeRecord } from "./volume.ts";

/** It waits for the claim that says where it is to be. */
export const isUnbound = (volume: VolumeRecord): boolean =>
  volume.state === "CREATING" && volume.goal === "present" && volume.binding?.node === "";

/** It may be claimed although it is not there yet: the claim is what it waits for, or what it is being made for. */
export const takesEarlyClaims = (volume: VolumeRecord): boolean =>
  volume.state === "CREATING" && volume.goal === "present" && volume.binding !== undefined;

const matches = (node: Segments, wanted: Segments): boolean =>
  Object.entries(wanted).every(([key, value]) =>
    Object.entries(node).some(([has, is]) => has.toLowerCase() === key.toLowerCase() && is === value),
  );

/** Whether the volume would be within reach of a node with this topology, before it has a place of its own. */
export const mayBeMadeFor = (volume: VolumeRecord, node: Segments): boolean => {
  const place = volume.binding?.place ?? {};
  const places = Object.keys(place).length > 0 ? [place] : volume.topology.required;
  return places.length === 0 || places.some((wanted) => matches(node, wanted));
};

/** The scheduler chose a node: the place and the intent to create there are durable before the plugin hears of it (I4). */
export const bound = (volume: VolumeRecord, uid: string, place: Segments, at: Moment): Change => {
  const claim = volume.claims[uid];
  if (!isUnbound(volume) || claim?.state !== "QUEUED" || !mayBeMadeFor(volume, place)) return noChange(volume);
  const next: VolumeRecord = {
    ...volume,
    binding: { node: claim.node, place },
    intent: { op: "create", epoch: volume.epoch, issuer: at.issuer, opId: at.opId },
    ...(claim.trace === undefined ? {} : { trace: claim.trace }),
    attempts: noAttempts,
    updatedAt: at.now,
  };
  return { volume: next, ended: [], notes: [volumeNote(next)] };
};

/** What could not be made is waited for by nobody: the claims that were there early end with it, and say why. */
export const earlyClaimsEnded = (change: Change, at: Moment): Change => {
  const { volume } = change;
  if (volume?.state !== "FAILED" || volume.binding === undefined) return change;
  const queued = Object.values(volume.claims).filter(({ state }) => state === "QUEUED");
  const message = `volume ${volume.namespace}/${volume.id} could not be made for node ${volume.binding.node}: ${volume.failure?.message ?? "refused"}`;
  const failed = foldClaims(volume, queued, (v, claim) =>
    memberFailed(v, claim.uid, { reason: "VOLUME_NOT_AVAILABLE", message, advice: "fail" }, at),
  );
  return { ...change, ...failed, notes: [...change.notes, ...failed.notes] };
};
