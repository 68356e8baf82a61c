/**
 * What every verb on a volume has in common. A1 Nothing is done that the caller has not repeated in the words of the dry run.
 * A2 The audit record is stored in the same commit as the change, or neither is. A3 The same request again answers the first
 * record; so does one whose answer was lost. A4 Proofs that can still be had are asked for first, and the change is decided from
 * the record as it is at the commit.
 */
import { traceIdOf } from "@holdfast/model/trace-id";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Change } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { CallNews } from "../../domain/open-call.ts";
import { type AuditEntry, type AuditRecord, type AuditSubject, isAbout } from "../../domain/repair/audit.ts";
import type { VolumeRecord, VolumeRef } from "../../domain/volume/volume.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import { keepsOpenCall } from "../../records/call-open-error.ts";
import type { ChangeResult, Decide } from "../../records/volume/volume-decisions.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumeNotFound } from "../errors.ts";
import type { Caller } from "../model.ts";
import { requestIdReused } from "./repair-errors.ts";
import type { Asked, RepairOutcome } from "./repair-model.ts";

export interface Judgement {
  readonly effects: readonly string[];
  readonly risks: readonly string[];
  readonly confirmWith: string;
  readonly subject: AuditSubject;
}

export interface Decision extends Judgement {
  readonly change: Change;
}

export interface VolumeVerb<Seen> {
  readonly verb: string;
  readonly ref: VolumeRef;
  readonly asked: Asked & { readonly evidence?: string };
  readonly caller: Caller;
  /** What the request itself names. */
  readonly subject: AuditSubject;
  /** What agents and plugins can still tell (A4). Throws when that alone refuses the verb. */
  readonly look: (volume: VolumeRecord) => Promise<Seen>;
  /** Throws REPAIR_NOT_APPLICABLE when the record is not, or no longer, as the verb needs it. */
  readonly decide: (volume: VolumeRecord, seen: Seen, at: Moment) => Decision;
  /** The id of the intent whose call is said to have ended. */
  readonly settles?: () => CallNews | undefined;
  /** How the change is stored, if not as any other; undefined = it could not be. */
  readonly store?: (act: Decide) => Promise<ChangeResult | undefined>;
}

export interface RepairVerbDeps {
  readonly records: VolumeRecords;
  readonly audit: AuditRecords;
}

const outcomeOf = ({ id, effects, risks }: AuditRecord): RepairOutcome => ({
  dryRun: false,
  effects,
  risks,
  auditId: id,
  confirmWith: "",
});

/** A3. What this request has done before; undefined = nothing. */
export const doneBefore = async (
  audit: Pick<AuditRecords, "ofRequest">,
  verb: string,
  requestId: string,
  subject: AuditSubject,
): Promise<RepairOutcome | undefined> => {
  const [first] = await audit.ofRequest(requestId);
  if (first === undefined) return undefined;
  if (first.verb !== verb || !isAbout(first.subject, subject)) throw requestIdReused(requestId, first.verb, first.id);
  return outcomeOf(first);
};

export const wouldBe = ({ effects, risks, confirmWith }: Judgement): RepairOutcome => ({
  dryRun: true,
  effects,
  risks,
  auditId: "",
  confirmWith,
});

/** A1. */
export const requireConfirmed = ({ confirmWith }: Judgement, { confirm }: Asked): void => {
  if (confirm !== confirmWith)
    throw invalidArgument([
      { field: "confirm", description: `has to be exactly "${confirmWith}", and only if that is true` },
    ]);
};

export const auditEntry = (
  verb: string,
  asked: Asked & { readonly evidence?: string },
  caller: Caller,
  judgement: Judgement,
): AuditEntry => ({
  verb,
  who: caller.who,
  reason: asked.reason,
  evidence: asked.evidence ?? "",
  confirmed: asked.confirm,
  effects: judgement.effects,
  risks: judgement.risks,
  requestId: asked.requestId,
  traceId: traceIdOf(caller.traceparent) ?? "",
  subject: judgement.subject,
});

export const runVolumeVerb = async <Seen>(
  { records, audit }: RepairVerbDeps,
  { verb, ref, asked, caller, subject, look, decide, settles, store }: VolumeVerb<Seen>,
): Promise<RepairOutcome> => {
  const before = asked.dryRun ? undefined : await doneBefore(audit, verb, asked.requestId, subject);
  if (before !== undefined) return before;
  const found = await records.get(ref);
  if (found === undefined) throw volumeNotFound(ref);
  const seen = await look(found.volume);
  let auditId = "";
  let dry: RepairOutcome | undefined;
  const act = (volume: VolumeRecord, at: Moment): Change => {
    const decision = decide(volume, seen, at);
    keepsOpenCall(volume, decision.change.volume, settles?.());
    if (asked.dryRun) {
      dry = wouldBe(decision);
      return { volume, ended: [], notes: [] };
    }
    requireConfirmed(decision, asked);
    if (auditId === "") auditId = audit.newId(at.now);
    const { change } = decision;
    const entry = auditEntry(verb, asked, caller, decision);
    const changedBy = { who: caller.who, why: `${verb}: ${asked.reason}` };
    return {
      ...change,
      volume: change.volume === null ? null : { ...change.volume, changedBy },
      audit: { id: auditId, entry }, // A2
    };
  };
  try {
    const by = { ...caller, why: `${verb}: ${asked.reason}` };
    const result = await (store === undefined ? records.change(ref, act, { by, settles: settles?.() }) : store(act));
    if (dry !== undefined) return dry;
    if (result?.changed !== true) throw volumeNotFound(ref);
  } catch (error) {
    // The answer of a commit that was stored may have been lost: what is asked again then finds its own work.
    const done = auditId === "" ? undefined : await audit.get(auditId);
    if (done !== undefined) return outcomeOf(done);
    const raced = await doneBefore(audit, verb, asked.requestId, subject);
    if (raced !== undefined) return raced;
    throw error;
  }
  const done = await audit.get(auditId);
  if (done === undefined) throw volumeNotFound(ref);
  return outcomeOf(done);
};
