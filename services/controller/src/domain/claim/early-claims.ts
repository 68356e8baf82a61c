/**
 * Volumes that are made for the node of their first claim. Until then nothing is called for them; from then on the place is part of the
 * CreateVolume that is repeated word for word. It is changed only when there was no room and nothing is left there for certain.
 */
import { createUncertain } from "../blocked.ts";
import { type Change, foldChanges, followedBy, noChange, volumeNote } from "../change.ts";
import { isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { type Failure, noAttempts } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import { wantedPlaces } from "../volume/source-topology.ts";
import { type Segments, type VolumeRecord, withoutStorage } from "../volume/volume.ts";
import { memberFailed } from "./claim-change.ts";

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
  const place = volume.binding?.undo === true ? {} : (volume.binding?.place ?? {});
  const places = Object.keys(place).length > 0 ? [place] : wantedPlaces(volume).required;
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

/** Before it has a place; `lastError` tells what became of the last one. */
const unbound = (volume: VolumeRecord, failure: Failure | undefined, at: Moment): VolumeRecord => {
  const { intent: _i, blocked: _b, ...rest } = volume;
  const lastError =
    failure === undefined ? volume.attempts.lastError : failedAttempt(noAttempts, failure, at).lastError;
  return {
    ...rest,
    binding: { node: "", place: {} },
    attempts: { ...noAttempts, ...(lastError === undefined ? {} : { lastError }) },
    updatedAt: at.now,
  };
};

/** A place where there is no room. Without a topology no other place would do, and it is the same call again. */
export const hasNoRoom = ({ state, goal, binding }: VolumeRecord, { code }: Failure): boolean =>
  code === "RESOURCE_EXHAUSTED" &&
  state === "CREATING" &&
  goal === "present" &&
  binding !== undefined &&
  Object.keys(binding.place).length > 0;

/**
 * CSI, CreateVolume, RESOURCE_EXHAUSTED: "unable to provision in accessible_topology". It may be made elsewhere, for whom the scheduler
 * places elsewhere. When an attempt before had no answer, what that may have made is looked for by its name and deleted first (I5).
 */
const placeExhausted = (volume: VolumeRecord, failure: Failure, at: Moment): Change => {
  const { intent, binding } = volume;
  if (!hasNoRoom(volume, failure) || intent === undefined || binding === undefined) return noChange(volume);
  const next: VolumeRecord = isDoubtful(intent, at)
    ? {
        ...volume,
        binding: { ...binding, undo: true },
        intent: { ...intent, uncertainSince: intent.uncertainSince ?? at.now },
        blocked: createUncertain(volume, failure, at.now),
        attempts: failedAttempt(volume.attempts, failure, at),
        updatedAt: at.now,
      }
    : unbound(volume, failure, at);
  return { volume: next, ended: [], notes: [volumeNote(next)] };
};

/**
 * What was made where nobody wants it is gone. It gets another name, and with it another id, for its next place: a late call about what is
 * gone must not meet it.
 */
export const unboundAgain = (volume: VolumeRecord, at: Moment): VolumeRecord => ({
  ...unbound(withoutStorage(volume), undefined, at),
  name: at.opId,
  state: "CREATING",
  stateSince: at.now,
});

const placeText = (place: Segments): string =>
  Object.entries(place)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");

/** Who chose the place is told that there is no room, so that it can choose another; who waits elsewhere waits on. */
const roomlessClaimsEnded = (before: VolumeRecord, change: Change, failure: Failure, at: Moment): Change => {
  const { volume } = change;
  if (volume === null || before.binding === undefined) return change;
  const { node, place } = before.binding;
  const message = `plugin ${before.plugin} has no room for volume ${before.namespace}/${before.id} where node ${node} is (${placeText(place)}): ${failure.message}; place the workload on a node elsewhere, or make room there`;
  const here = Object.values(volume.claims).filter((claim) => claim.state === "QUEUED" && claim.node === node);
  return followedBy(change, (left) =>
    foldChanges(left, here, (v, claim) =>
      memberFailed(v, claim.uid, { reason: "CAPACITY_EXHAUSTED", message, advice: "fail" }, at),
    ),
  );
};

export const roomless = (volume: VolumeRecord, failure: Failure, at: Moment): Change =>
  roomlessClaimsEnded(volume, placeExhausted(volume, failure, at), failure, at);

/** What could not be made is waited for by nobody: the claims that were there early end with it, and say why. */
export const earlyClaimsEnded = (change: Change, at: Moment): Change => {
  const { volume } = change;
  if (volume?.state !== "FAILED" || volume.binding === undefined) return change;
  const queued = Object.values(volume.claims).filter(({ state }) => state === "QUEUED");
  const message = `volume ${volume.namespace}/${volume.id} could not be made for node ${volume.binding.node}: ${volume.failure?.message ?? "refused"}`;
  return followedBy(change, (left) =>
    foldChanges(left, queued, (v, claim) =>
      memberFailed(v, claim.uid, { reason: "VOLUME_NOT_AVAILABLE", message, advice: "fail" }, at),
    ),
  );
};
