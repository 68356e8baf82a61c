import type { CutKind } from "../../domain/snapshot/snapshot.ts";
import type { VolumeCapability, VolumeRef } from "../../domain/volume/volume.ts";
import type { Caller } from "../model.ts";

/** What every verb is asked with. */
export interface Asked {
  readonly reason: string;
  readonly dryRun: boolean;
  /** The `confirmWith` of the dry run. */
  readonly confirm: string;
  readonly requestId: string;
}

export interface AskedWithEvidence extends Asked {
  readonly evidence: string;
}

export interface AbandonClaimInput extends AskedWithEvidence {
  readonly namespace: string;
  readonly volume: string;
  readonly workload: string;
  readonly alias: string;
  readonly claimUid: string;
}

export interface AdmitNodeInput extends AskedWithEvidence {
  readonly node: string;
  readonly life: string;
}

export interface AssertDetachedInput extends AskedWithEvidence {
  readonly namespace: string;
  readonly volume: string;
  readonly node: string;
}

export interface TakeOverInput extends AskedWithEvidence, VolumeRef {
  readonly of: "volume" | CutKind;
}

export interface ClearBarInput extends TakeOverInput {
  /** Its name: the id of the overtaken intent. */
  readonly bar: string;
}

export interface ForgetControllerInput extends AskedWithEvidence {
  readonly controller: string;
}

export interface ForgetVolumeInput extends Asked, VolumeRef {
  readonly uid: string;
}

export interface AdoptVolumeInput extends Asked, VolumeRef {
  readonly plugin: string;
  readonly externalId: string;
  readonly capabilities: readonly VolumeCapability[];
  readonly context: Readonly<Record<string, string>>;
}

export interface RemoveOrphanInput extends AskedWithEvidence {
  readonly orphanId: string;
  /** Where the record of storage that is being deleted stands. */
  readonly namespace: string;
  readonly secretRef: string | undefined;
}

/** What came of a verb. */
export interface RepairOutcome {
  readonly dryRun: boolean;
  readonly effects: readonly string[];
  readonly risks: readonly string[];
  /** Empty with `dryRun`. */
  readonly auditId: string;
  /** With `dryRun`: what has to be repeated for it to happen. */
  readonly confirmWith: string;
}

export type Verb<Input, Answer = RepairOutcome> = (input: Input, caller: Caller) => Promise<Answer>;
