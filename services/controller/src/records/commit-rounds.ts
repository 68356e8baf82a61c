/**
 * The loop around every commit that a decision ends in. A round reads, decides and commits; a round that settles nothing is made again.
 *
 * CR1 A commit whose answer was lost settles nothing, like a conflict: the next round reads which record stands there.
 * CR2 Rounds are bounded. After the last one the caller gets its own error, or the store's while no commit is answered at all, and nothing
 * is written any more.
 * CR3 The second round begins at once, each later one after a random pause that doubles. An abort ends the pauses and the rounds.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Commit, CommitResult } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";

export interface CommitRounds {
  /** undefined: the answer was lost, and the commit may be stored (CR1). */
  commit(commit: Commit): Promise<CommitResult | undefined>;
  /** The first answer of `round`; undefined asks for another round. */
  run<T>(round: (n: number) => Promise<T | undefined>, busy: () => HoldfastError): Promise<T>;
}

/** How a round with a commit ended; unknown: it is made anew, although its commit may be stored. */
export type CommitEnd = "known" | "unknown";

/** Runs a round, and hands it a promise of its own end, which others may wait for. */
export const toldRound = <T>(round: (over: Promise<CommitEnd>) => Promise<T>): Promise<T> => {
  const { promise: over, resolve } = Promise.withResolvers<CommitEnd>();
  const made = round(over);
  made.then(
    (settled) => resolve(settled === undefined ? "unknown" : "known"),
    () => resolve("known"),
  );
  return made;
};

export interface CommitRoundsDeps {
  readonly store: Pick<Store, "commit">;
  readonly clock: Pick<Clock, "sleep">;
  readonly ids: Pick<Ids, "random">;
  readonly signal: AbortSignal;
}

export const maxRounds = 12;
const pauses = { baseMs: 2, capMs: 128 };

export const createCommitRounds = ({ store, clock, ids, signal }: CommitRoundsDeps): CommitRounds => {
  /** CR3 */
  const pause = async (n: number): Promise<void> => {
    signal.throwIfAborted();
    if (n > 1) await clock.sleep(backoffDelay(n - 2, pauses, ids.random()), signal);
  };

  /** How the newest of all commits ended, if its answer was lost. */
  let lost: HoldfastError | undefined;

  return {
    async commit(commit) {
      try {
        const result = await store.commit(commit);
        lost = undefined;
        return result;
      } catch (error) {
        if (!isHoldfastError(error) || error.reason !== "STORE_OUTCOME_UNKNOWN") throw error;
        lost = error;
        return undefined; // CR1
      }
    },
    async run(round, busy) {
      for (let n = 0; n < maxRounds; n += 1) {
        if (n > 0) await pause(n);
        const settled = await round(n);
        if (settled !== undefined) return settled;
      }
      throw lost ?? busy(); // CR2
    },
  };
};

export const changedAllTheTime = (what: string, metadata: Readonly<Record<string, string>> = {}): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `${what} is being changed by others all the time; repeat the request`,
    metadata,
  });
