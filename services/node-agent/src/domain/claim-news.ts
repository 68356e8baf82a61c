/** What controllers are told of a claim that is held here. */
import type { Epoch } from "@holdfast/model/epoch";
import type { Halt } from "./answer-types.ts";
import type { VolumeRef } from "./types.ts";

/** A call of a plugin on this host that has lasted for a while. */
export interface LongCall {
  readonly method: string;
  readonly ref: VolumeRef;
  /** Empty: for no claim in particular. */
  readonly claimUid: string;
  readonly instance: string;
  /** Wall clock, milliseconds. */
  readonly since: number;
  readonly deadline: number;
  /** 0: not known. */
  readonly attempt: number;
}

/** What is mounted for the claim does not answer, or is dead and stays; or its publication cannot be repeated. */
export interface AilingClaim {
  readonly ref: VolumeRef;
  readonly claimUid: string;
  readonly epoch: Epoch;
  readonly since: number;
  readonly halt: Halt;
}

export interface ClaimNews {
  readonly ailing: readonly AilingClaim[];
  readonly calls: readonly LongCall[];
}

/** Two that are equal need not be told twice. */
export const newsKey = ({ ailing, calls }: ClaimNews): string =>
  [
    ...ailing.map(({ claimUid, since, halt }) => `${claimUid} ${halt.reason} ${since}`),
    ...calls.map(({ method, ref, claimUid, since }) => `${method} ${ref.volumeUid} ${claimUid} ${since}`),
  ].join("\n");
