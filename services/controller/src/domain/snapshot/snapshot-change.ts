import { isDoubtful, lateCallMs } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { mayBeOpen } from "../open-call.ts";
import { endingOf, type Failed, type Failure, neverSent, noAttempts, type Outcome } from "../outcome.ts";
import { failedAttempt, type RetryRule, retryDelay } from "../retry.ts";
import type { CutIntent, CutRecord, CutState } from "./snapshot.ts";
import { type CutAnswer, readCut } from "./snapshot-answer.ts";
import { mayBeCutLate } from "./snapshot-bar.ts";
import { cutBlocked } from "./snapshot-blocked.ts";
import { type CutEvent, cellOf } from "./snapshot-machine.ts";

/** What a decision leaves to be stored; the very record that came in = nothing changed, null = it ends. */
export type CutChange = CutRecord | null;

/** Between two questions whether it is ready: a cut may take hours at the backend. */
export const pollRule: RetryRule = { baseMs: 500, capMs: 30_000 };

const plain = (record: CutRecord): CutRecord => {
  const { intent: _i, blocked: _b, ...rest } = record;
  return rest as CutRecord;
};

const intentOf = (op: CutIntent["op"], at: Moment): CutIntent => ({ op, issuer: at.issuer, opId: at.opId });

const entering = (record: CutRecord, state: CutState, at: Moment): CutRecord => ({
  ...record,
  state,
  updatedAt: at.now,
  ...(record.state === state ? {} : { stateSince: at.now }),
});

/**
 * A call that cuts and has no answer may arrive behind the delete and cut it anew: it is the backend's own matter then when. So long
 * after one was given up (`lateCallMs`), a delete that is answered is not the last one.
 *
 * A life that is over has broken off its calls with its connections: what the plugin had begun by then is all that may come.
 */
const overLifeMs = 20_000;

const expectingLate = (record: CutRecord, ms: number, at: Moment): CutRecord => ({
  ...record,
  lateUntil: Math.max(record.lateUntil ?? 0, at.now + ms),
});

/** A cut that is not answered may be under way: of a life that is over, or of another controller. */
const mayBeUnderWay = ({ intent }: CutRecord, at: Moment): boolean =>
  intent?.op === "create" && intent.issuer !== at.issuer;

const withDoubt = (record: CutRecord, at: Moment): CutRecord =>
  mayBeUnderWay(record, at) ? expectingLate(record, overLifeMs, at) : record;

const deleting = (record: CutRecord, at: Moment): CutRecord => ({
  ...entering(plain(withDoubt(record, at)), "DELETING", at),
  goal: "absent",
  intent: intentOf("delete", at),
  attempts: noAttempts,
});

/** May an attempt before this one have done its work without our knowing? */
const inDoubt = (record: CutRecord, at: Moment): boolean =>
  mayBeCutLate(record) || (record.intent !== undefined && isDoubtful(record.intent, at));

/** It stays as it is and is tried again; blocked when repeating alone will not do. */
const held = (record: CutRecord, failure: Failure, at: Moment, how: "again" | "blocked" | "in_doubt"): CutRecord => {
  const { blocked: _old, ...rest } = record;
  const { intent } = record;
  const lost = failure.advice === "again" || failure.advice === "wait";
  return {
    ...(rest as CutRecord),
    ...(intent !== undefined && lost ? { intent: { ...intent, uncertainSince: intent.uncertainSince ?? at.now } } : {}),
    ...(how === "again" ? {} : { blocked: cutBlocked(record, failure, at.now, how === "in_doubt") }),
    attempts: failedAttempt(record.attempts, how === "again" ? failure : { ...failure, advice: "block" }, at),
    updatedAt: at.now,
  };
};

const failed = (record: CutRecord, failure: Failure, at: Moment): CutRecord => ({
  ...entering(plain(record), "FAILED", at),
  failure: endingOf(failure, record.attempts.count),
});

/** The plugin has it. What nobody wants any more is undone at once: a cancelled cut is cut, then delete (I5). */
const made = (record: CutRecord, state: "CUT" | "READY", at: Moment): CutRecord => {
  if (record.goal === "absent") return deleting(record, at);
  const polls = state === "CUT" ? record.polls + 1 : record.polls;
  const attempts = { count: 0, nextTry: state === "CUT" ? at.now + retryDelay(record.polls, pollRule, at.random) : 0 };
  const settled: CutRecord = { ...entering(plain(withDoubt(record, at)), state, at), polls, attempts };
  return state === "CUT" ? { ...settled, intent: intentOf("create", at) } : settled;
};

const contradiction = (record: CutRecord, because: string): Failure => ({
  reason: "INCOMPATIBLE",
  message: `plugin ${record.plugin} ${because}`,
  advice: "block",
});

const answered = (record: CutRecord, answer: CutAnswer, at: Moment): CutChange => {
  if (cellOf(record.state, "ready") === "ignored") return record;
  const reading = readCut(record, answer);
  switch (reading.kind) {
    case "fits":
      return made(reading.record, reading.ready ? "READY" : "CUT", at);
    case "partial": {
      if (record.goal === "absent") return deleting(reading.record, at);
      return held(reading.record, contradiction(record, reading.because), at, "blocked");
    }
    case "contradicts":
      return held(record, contradiction(record, reading.because), at, "blocked");
  }
};

/** What an attempt that did not succeed means, by what it and those before it prove. */
const eventOf = (record: CutRecord, outcome: Failed, at: Moment): CutEvent => {
  if (outcome.kind === "unknown") return "not_answered";
  // What only a change elsewhere can lift keeps one that is wanted waiting for it.
  if (outcome.failure.advice === "block" && record.goal === "present") return "not_answered";
  return inDoubt(record, at) ? "refused_in_doubt" : "refused";
};

/** It was to be deleted while the question whether it is ready was open; that question has ended. */
export const cutUnwanted = (record: CutChange, at: Moment): CutChange =>
  record?.state === "CUT" && record.goal === "absent" && !mayBeOpen(record)
    ? { ...deleting(record, at), asked: true }
    : record;

/** The outcome of one attempt to cut, or to learn whether it is ready. */
export const cutAttempted = (before: CutRecord, outcome: Outcome<CutAnswer>, at: Moment): CutChange => {
  const late = before.state === "DELETING" && before.attempts.count > 0;
  // No answer, or one that came when a delete may have been answered already: it may be there again.
  const inDoubt = outcome.kind === "done" ? late : outcome.kind === "unknown" && !neverSent(outcome.failure);
  const record: CutRecord = inDoubt ? expectingLate(before, lateCallMs, at) : before;
  if (outcome.kind === "done") return answered(record, outcome.value, at);
  const event = eventOf(record, outcome, at);
  const { failure } = outcome;
  // An answer has named what is there, although it could not be used: no refusal of a repeat makes it less so (I5).
  if (record.state === "CREATING" && record.externalId !== "" && outcome.kind === "refused")
    return record.goal === "absent" && !mayBeOpen(record) ? deleting(record, at) : held(record, failure, at, "blocked");
  switch (cellOf(record.state, event)) {
    case "stay":
      // One that is known by its id is not in doubt: the refusal is of the question, not of what was made.
      if (event === "refused_in_doubt" && record.state === "CREATING") return held(record, failure, at, "in_doubt");
      return held(record, failure, at, outcome.kind === "refused" || failure.advice === "block" ? "blocked" : "again");
    case "unless-wanted":
      return record.goal === "absent" ? null : failed(record, failure, at);
    default:
      return record;
  }
};

/** An earlier attempt of the intent was answered, and nobody could store what: it counts as one without an answer. */
export const cutDoubted = (record: CutRecord, at: Moment): CutRecord =>
  record.intent === undefined
    ? record
    : {
        ...expectingLate(record, overLifeMs, at),
        intent: { ...record.intent, uncertainSince: record.intent.uncertainSince ?? at.now },
      };

/** The call may be open and nothing can be asked now: its intent stays as it is, and the record says why. */
export const cutWaitsForCall = (record: CutRecord, failure: Failure, at: Moment): CutRecord =>
  held(record, failure, at, "blocked");

/** Nothing can be asked now: what it waits for is shown, and nothing else changes, least of all the doubt. */
export const cutWaits = (record: CutRecord, why: string, at: Moment): CutRecord =>
  record.attempts.lastError?.message === why
    ? record
    : {
        ...record,
        attempts: { ...record.attempts, lastError: { reason: "PLUGIN_NOT_READY", message: why, at: at.now } },
      };

/** Somebody wants it gone. Whether others still need it is compared in the commit itself. */
export const cutDeleteWanted = (record: CutRecord, trace: CutRecord["trace"], at: Moment): CutChange => {
  const wanted: CutRecord = { ...record, goal: "absent", ...(trace === undefined ? {} : { trace }) };
  switch (cellOf(record.state, "delete_wanted")) {
    case "stay":
      return record.goal === "absent" ? record : { ...wanted, attempts: noAttempts, updatedAt: at.now };
    case "DELETING":
      // No delete leaves beside a question that may be open: it cuts anew what it does not find.
      if (mayBeOpen(record))
        return record.goal === "absent" ? record : { ...wanted, attempts: noAttempts, updatedAt: at.now };
      return record.state === "CUT" ? { ...deleting(wanted, at), asked: true } : deleting(wanted, at);
    case "gone":
      return null;
    default:
      return record;
  }
};

/** Deleted, and once more when whatever may still cut it anew has had its time (I5). A record with a bar stays for it (BR2). */
const deletedOnce = (record: CutRecord, at: Moment): CutChange => {
  if (record.lateUntil === undefined || at.now >= record.lateUntil)
    return record.bars.length === 0 ? null : { ...plain(record), attempts: noAttempts, updatedAt: at.now };
  // Of a wall clock that was set back since: it is waited for from now on.
  const lateUntil = Math.min(record.lateUntil, at.now + lateCallMs);
  const message = `it was deleted, and is deleted once more: a call to plugin ${record.plugin} that cuts it had no answer and may still arrive`;
  const lastError = { reason: "CUT_UNANSWERED", message, at: at.now };
  const { blocked: _b, ...rest } = record;
  return {
    ...(rest as CutRecord),
    lateUntil,
    attempts: { count: record.attempts.count + 1, nextTry: lateUntil, lastError },
    updatedAt: at.now,
  };
};

/** The outcome of one attempt to delete. Whatever is not known to be gone is still there. */
export const cutDeleteAttempted = (before: CutRecord, outcome: Outcome<void>, at: Moment): CutChange => {
  // Calls of one record follow each other: no question is under way behind a delete.
  const { asked: _answered, ...rest } = before;
  const record = before.asked === undefined ? before : (rest as CutRecord);
  const cell = cellOf(record.state, outcome.kind === "done" ? "deleted" : "not_deleted");
  if (cell === "gone") return deletedOnce(record, at);
  if (cell !== "stay" || outcome.kind === "done") return record;
  const blocked = outcome.kind === "refused" || outcome.failure.advice === "block";
  return held(record, outcome.failure, at, blocked ? "blocked" : "again");
};

/**
 * What only a person's word ends: nobody knows whether the backend has it, and asking does not tell; or it goes with a group of
 * the backend that no record knows.
 */
export const mayBeGivenUp = (record: CutRecord): boolean =>
  record.bars.length === 0 && // BR2
  ((record.state === "CREATING" && record.blocked?.reason === "CREATE_UNCERTAIN") ||
    (record.state === "DELETING" && record.blocked?.reason === "BACKEND_GROUP"));

/** The group of the backend without which it cannot be deleted, and which Holdfast did not make; empty for none. */
export const backendGroupOf = (record: CutRecord): string =>
  record.kind === "snapshot" && record.group === "" ? record.externalGroupId : "";

export const cutGivenUp = (record: CutRecord): CutChange =>
  mayBeGivenUp(record) && cellOf(record.state, "given_up") === "gone" ? null : record;
