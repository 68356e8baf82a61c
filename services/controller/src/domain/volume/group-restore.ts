/**
 * Volumes that were made together, one from each snapshot of a group. Each carries the whole mapping: there is no record of the set that
 * could disagree with them.
 *
 * GR1 The records of all of them are stored in one commit, or none is.
 * GR2 Once one has FAILED for good the others are deleted, in one commit over all of them, and only while no claim was ever made of any
 *     that is there. Whether they were is stored in that commit, and decided once.
 * GR3 Nothing is deleted while something is made from it, or uses it, or another call of it is under way: that is waited for.
 */
import { type Change, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { VolumeRecord } from "./volume.ts";
import { callBeforeDelete, deleteWanted, usersOf } from "./volume-change.ts";

/** It has failed, and whether the others go with it is not decided yet. */
export const owesRestoreEnd = ({ restore, state, goal }: VolumeRecord): boolean =>
  restore !== undefined && restore.end === undefined && state === "FAILED" && goal === "present";

/** A claim of it is stored: from now on it is of use to somebody, whatever becomes of the others. */
export const restoreClaimed = (volume: VolumeRecord): VolumeRecord =>
  volume.restore === undefined || volume.restore.claimed === true
    ? volume
    : { ...volume, restore: { ...volume.restore, claimed: true } };

/** GR3 */
const isBusy = (volume: VolumeRecord): boolean => usersOf(volume).length > 0 || callBeforeDelete(volume) !== undefined;

/** What was never claimed holds nothing but the snapshot's data: its storage goes, whatever the policy says of storage that was used. */
const undone = (volume: VolumeRecord, failed: VolumeRecord, at: Moment): Change => {
  const change = deleteWanted({ ...volume, policy: { ...volume.policy, reclaim: "delete" } }, undefined, at);
  if (change.volume === null) return change;
  const why = `volume ${failed.id}, restored together with it, has FAILED`;
  return { ...change, volume: { ...change.volume, changedBy: { who: volume.changedBy.who, why } } };
};

const decided = (failed: VolumeRecord, end: "undone" | "kept", at: Moment): Change => {
  const { restore } = failed;
  if (restore === undefined) return { volume: failed, ended: [], notes: [] };
  const volume: VolumeRecord = { ...failed, restore: { ...restore, end }, updatedAt: at.now };
  return { volume, ended: [], notes: [volumeNote(volume)] };
};

/** GR2, over the records of all its volumes; undefined leaves one as it is. */
export const restoreEnded = (
  volumes: readonly (VolumeRecord | undefined)[],
  id: string,
  at: Moment,
): readonly (Change | undefined)[] => {
  const failed = volumes.find((volume) => volume?.id === id);
  if (failed === undefined || !owesRestoreEnd(failed)) return [];
  const others = volumes.flatMap((volume) =>
    volume !== undefined && volume !== failed && volume.restore?.uid === failed.restore?.uid ? [volume] : [],
  );
  const kept = others.some(({ restore }) => restore?.claimed === true || restore?.end === "kept");
  const wanted = kept ? [] : others.filter(({ goal, state }) => goal === "present" && state !== "FAILED");
  if (wanted.some(isBusy)) return [];
  return volumes.map((volume) => {
    if (volume === failed) return decided(failed, kept ? "kept" : "undone", at);
    return volume !== undefined && wanted.includes(volume) ? undone(volume, failed, at) : undefined;
  });
};
