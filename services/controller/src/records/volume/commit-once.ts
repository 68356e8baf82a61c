/** Makes the commit of a decision over volumes. Unless it is known to be stored, nothing of the volumes is remembered. */
import type { Commit, CommitResult } from "../../domain/store-types.ts";
import { type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { AttachSlots } from "../attachment/attach-slots.ts";
import type { CommitRounds } from "../commit-rounds.ts";
import type { RecordCache } from "../record-cache.ts";
import type { GrantTerms } from "./change-options.ts";

export type Stored = Extract<CommitResult, { readonly ok: true }>;

/** undefined = a conflict, or nobody knows whether it was stored. */
export type CommitOnce = (commit: Commit, refs: readonly VolumeRef[]) => Promise<Stored | "crowded" | undefined>;

export interface CommitOnceDeps {
  readonly rounds: Pick<CommitRounds, "commit">;
  readonly cache: Pick<RecordCache, "drop">;
  readonly slots: Pick<AttachSlots, "recount">;
  readonly grants?: Pick<GrantTerms, "changed"> | undefined;
}

export const createCommitOnce =
  ({ rounds, cache, slots, grants }: CommitOnceDeps): CommitOnce =>
  async (commit, refs) => {
    const forget = (): void => {
      for (const ref of refs) cache.drop(volumeKey(ref));
    };
    let result: CommitResult | undefined;
    try {
      result = await rounds.commit(commit);
    } catch (error) {
      forget();
      throw error;
    }
    if (result?.ok) return result;
    if (result?.crowded) return "crowded";
    if (result?.conflicts.some(({ ref: { kind } }) => kind === "meta")) await grants?.changed();
    // V1; after a lost answer the next decision sees whether this one was stored: all of them may be made twice.
    forget();
    // Another controller has the last of these slots: with their number known, the decision is another one.
    await slots.recount((result?.full ?? []).map(({ value }) => value));
    return undefined;
  };
