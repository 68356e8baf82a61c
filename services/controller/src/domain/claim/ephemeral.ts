/**
 * Volumes that a claim brought and that end with it. Such a volume is made for the node of its first claim, so that nothing is asked of
 * its plugin before the claim is stored.
 *
 * EV1 It is deleted once no claim is left of it, nothing has it attached and no call of it may be open; never before.
 * EV2 One that no claim was ever stored for goes too, after a while: its request ended in between, and nobody repeated it.
 * EV3 What is wanted to go takes no new claim: a claim that is made anew has a new volume.
 */
import type { Change } from "../change.ts";
import { noChange } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import { callBeforeDelete, deleteWanted, usersOf } from "../volume/volume-change.ts";

/** EV2. Longer than a request waits, and than a scheduler takes to repeat it. */
export const unclaimedMs = 15 * 60_000;

/** When it is to be deleted; undefined = something has to end before, or it is no such volume. */
export const endsAt = (volume: VolumeRecord): number | undefined => {
  const { ephemeral, goal, createdAt } = volume;
  if (ephemeral === undefined || goal === "absent" || usersOf(volume).length > 0) return undefined;
  if (callBeforeDelete(volume) !== undefined) return undefined;
  return ephemeral.claimed === true ? 0 : createdAt + unclaimedMs;
};

/** EV1 */
export const ephemeralEnded = (volume: VolumeRecord, at: Moment): Change => {
  const ends = endsAt(volume);
  return ends === undefined || ends > at.now ? noChange(volume) : deleteWanted(volume, undefined, at);
};

/** A claim of it is stored. */
export const claimed = (volume: VolumeRecord): VolumeRecord =>
  volume.ephemeral === undefined || volume.ephemeral.claimed === true
    ? volume
    : { ...volume, ephemeral: { ...volume.ephemeral, claimed: true } };

/** EV3 A claim with this key that is made now would meet what a former life of it leaves. */
export const isLeaving = (volume: VolumeRecord): boolean => {
  const { ephemeral, goal, claims } = volume;
  if (ephemeral === undefined) return false;
  const lives = Object.values(claims);
  return goal === "absent" || (ephemeral.claimed === true && !lives.some((claim) => claim.goal === "active"));
};
