/** Storage that exists and gets a record: asked about, never made, never formatted, and never deleted for not being wanted. */

import { accessRules } from "@holdfast/model/access";
import { foreignAttachment } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import { followOf } from "../obligation/obligation.ts";
import { type Blocked, endingOf, type Failure, noAttempts, type Outcome } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { Segments, VolumeRecord } from "./volume.ts";

/** What ValidateVolumeCapabilities and a look at the volume told. */
export interface ValidatedVolume {
  /** False: the plugin said neither yes nor no. CSI lets it, and older plugins do; it is told to people. */
  readonly confirmed: boolean;
  readonly pluginVersion: string;
  /** Bytes; 0 = not told. */
  readonly capacity: number;
  readonly accessible: readonly Segments[];
  /** The plugin's ids of the nodes that the backend has it attached to; undefined = it does not tell. */
  readonly publishedNodes: readonly string[] | undefined;
}

/** CreateVolume is never called without a name: a volume that has none was registered. */
export const isRegistered = (volume: Pick<VolumeRecord, "name">): boolean => volume.name === "";

const told = (volume: VolumeRecord, extra: Readonly<Record<string, string | boolean>> = {}): Change => {
  const note = volumeNote(volume);
  return { volume, ended: [], notes: [{ ...note, body: { ...note.body, ...extra } }] };
};

const without = (volume: VolumeRecord): VolumeRecord => {
  const { intent: _i, blocked: _b, ...rest } = volume;
  return rest;
};

/** A volume that two nodes may never have at once cannot be given to one while the backend shows it at another. */
const oneNodeOnly = (volume: VolumeRecord): boolean =>
  volume.capabilities.some(({ accessMode }) => !accessRules[accessMode].manyNodes);

/**
 * The plugin has nothing against it. Attached to nodes that no record explains it waits, blocked, as long as one of its access modes
 * is for a single node: whoever has it there may be writing (I1). Modes for many nodes allow for users that we do not know, and whoever
 * adopted it has said that there are none.
 */
const validated = (volume: VolumeRecord, result: ValidatedVolume, at: Moment): Change => {
  const nodes = result.publishedNodes ?? [];
  if (nodes.length > 0 && oneNodeOnly(volume) && volume.vouched === undefined) {
    const message = `the backend has ${volume.externalId} attached to ${nodes.join(", ")}, which no record explains`;
    const failure: Failure = { reason: "FOREIGN_ATTACHMENT", message, advice: "block" };
    return askedAgain(volume, failure, foreignAttachment(volume, message, volume.blocked, at.now), at);
  }
  return told(
    {
      ...without(volume),
      state: "AVAILABLE",
      stateSince: at.now,
      pluginVersion: result.pluginVersion,
      capacity: { ...volume.capacity, actual: result.capacity },
      topology:
        volume.topology.accessible.length > 0 ? volume.topology : { ...volume.topology, accessible: result.accessible },
      attempts: noAttempts,
      updatedAt: at.now,
    },
    {
      ...(result.confirmed ? {} : { unconfirmed: true }),
      ...(nodes.length === 0 ? {} : { attached_elsewhere: nodes.slice(0, 20).join(",") }),
    },
  );
};

const askedAgain = (volume: VolumeRecord, failure: Failure, blocked: Blocked | undefined, at: Moment): Change => {
  const { blocked: _old, ...rest } = volume;
  return told({
    ...rest,
    ...(blocked === undefined ? {} : { blocked }),
    attempts: failedAttempt(volume.attempts, failure, at),
    updatedAt: at.now,
  });
};

/** What ValidateVolumeCapabilities, and a look at the volume, were answered. */
export const validateAnswered = (volume: VolumeRecord, outcome: Outcome<ValidatedVolume>, at: Moment): Change => {
  const follow = followOf("validate", volume, outcome, at);
  if (follow === "nothing") return noChange(volume);
  if (outcome.kind === "done") return validated(volume, outcome.value, at);
  const { failure } = outcome;
  if (follow === "again") {
    const blocks = failure.advice === "block";
    const blocked = blocks ? blockedBy("validate", failure, volume, volume.blocked, at.now) : undefined;
    return askedAgain(volume, failure, blocked, at);
  }
  return told({
    ...without(volume),
    state: "FAILED",
    stateSince: at.now,
    failure: endingOf(failure, volume.attempts.count),
    attempts: failedAttempt(volume.attempts, failure, at),
    updatedAt: at.now,
  });
};
