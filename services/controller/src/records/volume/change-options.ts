/** What a decision over volume records may depend on beside them. */
import type { CallNews } from "../../domain/open-call.ts";
import type { Commit, ExpectedRecord, IndexEntry } from "../../domain/store-types.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { CommitEnd } from "../commit-rounds.ts";
import type { Cause } from "../event-body.ts";

export interface ChangeOptions extends Cause {
  /** Only over this revision of the first record; over another one the change is refused with REVISION_CONFLICT. */
  readonly expectedRev?: number | undefined;
  /** The id of the intent that the change may drop or replace although its call was given to an instance: it has ended, or is this life's. */
  readonly settles?: CallNews | undefined;
  /** Asked before each commit: records that have to be as they are now when it is made, or it is decided anew. */
  readonly expects?: Expects | undefined;
  /** A caller asked for it: who acts may begin beside the commit. */
  readonly leads?: true;
  /** The store takes it only while it is vetted, whatever is decided. */
  readonly requiresVetted?: true;
  /** Entries that no record may carry that is not changed here. */
  readonly alone?: (volumes: readonly VolumeRecord[]) => readonly IndexEntry[];
}

/** What every grant and offer depends on beside the records of its volumes. */
export interface GrantTerms {
  /** As it is known where the decision is made. */
  judgedBy(): readonly ExpectedRecord[];
  /** A commit found that it is not so any more. Resolves when it was looked at again, or after a while. */
  changed(): Promise<void>;
}

/** What leaves before the commit of a decision; undefined: nothing. */
export type Lead = (before: VolumeRecord, after: VolumeRecord, commit: LedCommit) => Promise<void> | undefined;

/** A commit that is about to be made. */
export interface LedCommit {
  /** A caller asked for it: what leads it may leave before it. */
  readonly leads: boolean;
  /** Never rejects. */
  readonly over: Promise<CommitEnd>;
}

export type Expects = () => Promise<readonly ExpectedRecord[]>;

/** What the commit of a change carries of them; `expects`: all that it relies on. */
export const termsOf = (
  { alone, requiresVetted }: ChangeOptions,
  found: readonly ({ readonly volume: VolumeRecord } | undefined)[],
  expects: readonly ExpectedRecord[],
): Pick<Commit, "alone" | "expects"> & { readonly requiresVetted?: true } => ({
  ...(alone === undefined ? {} : { alone: alone(found.flatMap((f) => f?.volume ?? [])) }),
  ...(expects.length === 0 ? {} : { expects }),
  ...(requiresVetted === undefined ? {} : { requiresVetted }),
});
