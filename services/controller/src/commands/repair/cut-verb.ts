import type { Moment } from "../../domain/moment.ts";
import type { CallNews } from "../../domain/open-call.ts";
import type { CutRecord, CutRef } from "../../domain/snapshot/snapshot.ts";
import type { CutChange } from "../../domain/snapshot/snapshot-change.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { Caller } from "../model.ts";
import { cutNotFound } from "../snapshot/snapshot-errors.ts";
import type { Asked, RepairOutcome } from "./repair-model.ts";
import {
  auditEntry,
  doneBefore,
  type Judgement,
  type RepairVerbDeps,
  requireConfirmed,
  wouldBe,
} from "./repair-verb.ts";

export interface CutVerbDeps extends RepairVerbDeps {
  readonly cuts: CutRecords;
  readonly clock: { now(): number };
}

export interface CutVerb {
  readonly verb: string;
  readonly ref: CutRef;
  readonly asked: Asked & { readonly evidence: string };
  readonly caller: Caller;
}

/** By the record as it was looked at. */
export interface CutDecision {
  /** Throws REPAIR_NOT_APPLICABLE when the record is not, or no longer, as the verb needs it. */
  readonly judge: (record: CutRecord) => Judgement;
  readonly change: (record: CutRecord, at: Moment) => CutChange;
  readonly settles?: CallNews | undefined;
}

/** What every verb on a snapshot or a group has in common: A1–A3 of repair-verb.ts. */
export const runCutVerb = async (
  { cuts, audit, clock }: CutVerbDeps,
  { verb, ref, asked, caller }: CutVerb,
  seeing: (found: CutRecord) => CutDecision,
): Promise<RepairOutcome> => {
  const subject = { namespace: ref.namespace, volume: ref.id };
  const before = asked.dryRun ? undefined : await doneBefore(audit, verb, asked.requestId, subject);
  if (before !== undefined) return before;
  const found = (await cuts.get(ref))?.record;
  if (found === undefined) throw cutNotFound(ref);
  const { judge, change, settles } = seeing(found);
  const judgement = judge(found);
  if (asked.dryRun) return wouldBe(judgement);
  requireConfirmed(judgement, asked);
  const id = audit.newId(clock.now());
  const decide = (record: CutRecord, at: Moment): CutChange => {
    judge(record);
    return change(record, at);
  };
  const by = { ...caller, why: `${verb}: ${asked.reason}` };
  await cuts.change(ref, decide, { by, settles, audit: { id, entry: auditEntry(verb, asked, caller, judgement) } });
  const { effects, risks } = judgement;
  return { dryRun: false, effects, risks, auditId: id, confirmWith: "" };
};
