/**
 * What the agent of a claim's node says of it, unasked. It moves no state: the block is for people, and the mount is not made anew, since
 * what was written to it may still come back.
 */

import type { CallUnderWay } from "../call-under-way.ts";
import { type Change, claimNote, noChange } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { Blocked } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim } from "./claim.ts";

export interface ClaimNews {
  /** Its mount does not answer, or its publication cannot be repeated. */
  readonly ailing?: Blocked;
  readonly call?: CallUnderWay;
}

const sameCall = (a: CallUnderWay | undefined, b: CallUnderWay | undefined): boolean =>
  a?.method === b?.method && a?.since === b?.since && a?.attempt === b?.attempt;

const sameBlock = (a: Blocked | undefined, b: Blocked | undefined): boolean =>
  a?.reason === b?.reason && a?.since === b?.since;

/** The whole of what is said: what is not in it is over. Only a block is told to watchers of events. */
export const newsTold = (volume: VolumeRecord, uid: string, news: ClaimNews, at: Moment): Change => {
  const claim = volume.claims[uid];
  if (claim === undefined) return noChange(volume);
  const { ailing, call, ...rest } = claim;
  if (sameBlock(ailing, news.ailing) && sameCall(call, news.call)) return noChange(volume);
  const next: Claim = {
    ...rest,
    ...(news.ailing === undefined ? {} : { ailing: news.ailing }),
    ...(news.call === undefined ? {} : { call: news.call }),
  };
  const after = { ...volume, claims: { ...volume.claims, [uid]: next }, updatedAt: at.now };
  return { volume: after, ended: [], notes: [claimNote(after, next)] };
};
