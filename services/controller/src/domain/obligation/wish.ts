/** What a volume is to become by one call that is owed to its backend: an expansion, a modification. */
import { isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { mayBeOpen } from "../open-call.ts";
import type { Attempts, Failure } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { VolumeRecord } from "../volume/volume.ts";

interface Wish {
  readonly state: "WANTED" | "CALLING" | "UNCERTAIN" | "REFUSED";
  readonly uncertainSince?: number;
  readonly attempts: Attempts;
}

/** An attempt for the wish, under this intent or one before it, may have done its work. */
export const wishInDoubt = ({ intent }: VolumeRecord, { uncertainSince }: Wish, at: Moment): boolean =>
  uncertainSince !== undefined || (intent !== undefined && isDoubtful(intent, at));

/** One more attempt that did not settle the wish: in doubt only an answer that tells what the backend has leads on. */
export const wishAgain = <W extends Wish>(wish: W, failure: Failure, doubt: boolean, at: Moment): W => {
  const { uncertainSince = at.now, ...rest } = wish;
  const attempts = failedAttempt(wish.attempts, failure, at);
  const state = doubt ? ({ state: "UNCERTAIN", uncertainSince } as const) : ({ state: "WANTED" } as const);
  return { ...rest, ...state, attempts } as W;
};

/** The volume's one call is given back, unless it may be open. */
export const callReturned = (volume: VolumeRecord): VolumeRecord => {
  if (mayBeOpen(volume)) return volume;
  const { intent: _returned, ...rest } = volume;
  return rest;
};
