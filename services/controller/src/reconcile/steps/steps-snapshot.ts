import type { Clock } from "@holdfast/shared/async/clock";
import type { Moment } from "../../domain/moment.ts";
import { afterCall, assigned, inherited, storedAnew } from "../../domain/open-call.ts";
import type { Outcome } from "../../domain/outcome.ts";
import { type CutRecord, cutKey } from "../../domain/snapshot/snapshot.ts";
import type { CutAnswer } from "../../domain/snapshot/snapshot-answer.ts";
import {
  backendGroupOf,
  type CutChange,
  cutAttempted,
  cutDeleteAttempted,
  cutDoubted,
  cutUnwanted,
  cutWaits,
  cutWaitsForCall,
} from "../../domain/snapshot/snapshot-change.ts";
import type { CutStep } from "../../domain/snapshot/snapshot-steps.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { CallContext, ControllerPlugins, SnapshotPlugins, StoreGate } from "../../ports.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { CallSlots, SlotRequest } from "../plugin/call-slots.ts";
import { type CallRights, relookMs, turnOf } from "../plugin/call-turn.ts";
import { type Attempt, underIntent, unsent } from "../plugin/under-intent.ts";
import type { SnapshotFailpoint } from "../snapshot-failpoints.ts";
import { settle } from "./step-run.ts";

/** What the steps of snapshots and groups work with. */
export interface CutStepDeps {
  readonly cuts: CutRecords;
  readonly plugins: SnapshotPlugins & Pick<ControllerPlugins, "seek">;
  readonly gate: StoreGate;
  readonly slots: CallSlots;
  readonly clock: Clock;
  readonly failpoint: (name: SnapshotFailpoint) => void | Promise<void>;
  /** Which calls are this controller's to make. */
  readonly rights: CallRights;
  /** Looks at the record again after a while, if nothing wakes it before. */
  readonly wakeLater: (ms: number, key: string) => void;
  /** Calls that left and whose answers are not stored yet: by record, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  readonly signal: AbortSignal;
}

/** The call of the record, under the intent that it has. */
const callUnder = async <T>(
  deps: CutStepDeps,
  name: "cut" | "uncut",
  record: CutRecord,
  call: (now: CutRecord, context: CallContext) => Promise<Outcome<T>>,
): Promise<Attempt<T> | undefined> => {
  const { cuts, plugins, gate, rights, signal, unstored, wakeLater } = deps;
  const { intent: its } = record;
  const key = cutKey(record);
  let planned = record;
  if (its !== undefined && its.via === undefined) {
    const via = await plugins.seek(record);
    if (typeof via !== "string") return unsent(its.opId, via);
    const given = await cuts.change(record, (r, at) => assigned(r, its.opId, via, at));
    if (!given.changed || given.now === undefined) return undefined;
    planned = given.now.record;
  } else if (its !== undefined && cuts.orders.of(key, its.opId) === undefined) {
    const left = { opId: its.opId, end: unstored.get(key) === its.opId ? "open" : "not-sent" } as const;
    const again = await cuts.change(record, (r, at) => storedAnew(r, left, at), { settles: left });
    if (!again.changed || again.now === undefined) return undefined;
    unstored.delete(key);
    planned = again.now.record;
  }
  const known = async (): Promise<CutRecord | undefined> => (await cuts.get(planned))?.record;
  return await underIntent<CutRecord, T>({
    key,
    uid: planned.uid,
    issuer: rights.issuer,
    unstored,
    orders: cuts.orders,
    known: async () => planned,
    read: known,
    stillRight: ({ state, goal, intent }) =>
      state === planned.state &&
      goal === planned.goal &&
      intent?.op === planned.intent?.op &&
      (name === "cut" || gate.state().open),
    make: (now, wanted) =>
      settle<T, "cut" | "uncut">(deps, name, () => call(now, { signal, attempt: now.attempts.count + 1, wanted })),
    lookAgain: (afterMs) => wakeLater(afterMs, key),
  });
};

/** The answer of an attempt, for the record that it was asked for. */
const answered =
  ({ opId, end }: Pick<Attempt<unknown>, "opId" | "end">, decide: (record: CutRecord, at: Moment) => CutChange) =>
  (record: CutRecord, at: Moment): CutChange =>
    record.intent?.opId === opId ? decide(afterCall(record, end, at), at) : record;

/** The id that the plugin answered stands for another record: to believe it would let one delete the other's snapshot. */
const idTaken = (record: CutRecord, { externalId }: CutAnswer): Outcome<CutAnswer> => ({
  kind: "refused",
  failure: {
    reason: "INCOMPATIBLE",
    message: `plugin ${record.plugin} answered for ${record.kind} ${volumeKey(record)} with ${externalId}, of which a snapshot is on record for another`,
    advice: "block",
    call: "ended",
  },
});

/**
 * CreateSnapshot, or its group form, under the stored name: a repeat finds what an attempt without answer may have made, and tells
 * whether it is ready.
 */
const cut = async (deps: CutStepDeps, record: CutRecord, traceId: string | undefined): Promise<boolean> => {
  const { cuts, plugins, slots, signal, unstored } = deps;
  const key = cutKey(record);
  const { intent } = record;
  if (record.state === "CUT" && record.goal === "absent" && intent !== undefined && intent.openSince === undefined) {
    // The question never left: the delete follows at once. One that this life has asked is finished first.
    const unsent = { opId: intent.opId, end: unstored.get(key) === intent.opId ? "open" : "not-sent" } as const;
    if (unsent.end === "not-sent")
      return (await cuts.change(record, answered(unsent, cutUnwanted), { traceId, settles: unsent })).changed;
  }
  const request = {
    plugin: record.plugin,
    kind: "make",
    method: record.kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot",
    repeat: record.attempts.count > 0,
  } as const;
  const attempt = await slots.run(request, signal, () => callUnder(deps, "cut", record, plugins.cut));
  if (attempt === undefined) return false;
  const { outcome } = attempt;
  const store = (result: Outcome<CutAnswer>) =>
    cuts.change(
      record,
      answered(attempt, (r, at) => cutUnwanted(cutAttempted(attempt.unstored ? cutDoubted(r, at) : r, result, at), at)),
      { traceId, settles: attempt },
    );
  const stored = await store(outcome);
  const { changed } = stored.crowded && outcome.kind === "done" ? await store(idTaken(record, outcome.value)) : stored;
  unstored.delete(key);
  return changed;
};

const removal = (record: CutRecord): SlotRequest => ({
  plugin: record.plugin,
  kind: "remove",
  method: record.kind === "group" ? "DeleteVolumeGroupSnapshot" : "DeleteSnapshot",
  repeat: record.attempts.count > 0,
});

const besideGroup = (record: CutRecord, group: string): Exclude<Outcome<void>, { readonly kind: "done" }> => ({
  kind: "refused",
  failure: {
    reason: "BACKEND_GROUP",
    call: "not-sent",
    message: `plugin ${record.plugin} says that snapshot ${record.externalId} can be deleted only together with its group ${group}, which Holdfast did not make`,
    advice: "block",
  },
});

/**
 * DeleteSnapshot, or its group form with the exact ids, until it is known to be gone. Not while the store is unvetted: the record may
 * be older than a wish that the store has lost, and a deletion cannot be taken back.
 */
const uncut = async (deps: CutStepDeps, record: CutRecord, traceId: string | undefined): Promise<boolean> => {
  const { cuts, plugins, slots, gate, signal, unstored } = deps;
  if (!gate.state().open) return false;
  const group = backendGroupOf(record);
  const { intent } = record;
  const refused = {
    opId: intent?.opId ?? "",
    end: "not-sent",
    outcome: besideGroup(record, group),
    unstored: false,
  } as const;
  const attempt =
    group !== ""
      ? refused
      : await slots.run(removal(record), signal, () => callUnder(deps, "uncut", record, plugins.deleteCut));
  if (attempt === undefined) return false;
  const { changed } = await cuts.change(
    record,
    answered(attempt, (r, at) => cutDeleteAttempted(r, attempt.outcome, at)),
    { traceId, settles: attempt },
  );
  unstored.delete(cutKey(record));
  return changed;
};

/** Why the plugin cannot be asked now; empty when it can. What it has not told yet is waited for, and never taken for "no". */
const obstacleTo = ({ plugins }: CutStepDeps, { kind, plugin }: CutRecord): string => {
  const facts = plugins.snapshotFacts(plugin);
  if (!facts.ready) return facts.reason;
  return (kind === "group" ? facts.groups : facts.snapshots) === "unknown"
    ? `plugin ${plugin} has not told yet whether it cuts ${kind}s`
    : "";
};

/** The record under which the call is this controller's to make; otherwise whether anything was stored instead of it. */
const takeTurn = async (
  { cuts, rights, clock, wakeLater }: CutStepDeps,
  record: CutRecord,
  traceId: string | undefined,
): Promise<CutRecord | boolean> => {
  const turn = turnOf(rights, cutKey(record), record, clock.now());
  const opId = record.intent?.opId ?? "";
  const store = (decide: (record: CutRecord, at: Moment) => CutChange) =>
    cuts.change(record, decide, { traceId, settles: { opId, end: "open" } });
  const own = async (give: (r: CutRecord, at: Moment) => CutRecord): Promise<CutRecord | boolean> => {
    const { now, changed } = await store(give);
    return changed && (now?.record ?? true);
  };
  // Another life's call may cut it anew behind a delete.
  const doubted = (r: CutRecord, at: Moment): CutRecord => (r.intent?.issuer === at.issuer ? r : cutDoubted(r, at));
  switch (turn.kind) {
    case "run":
      return record;
    case "take":
      return await own((r, at) => assigned(r.intent?.op === "create" ? doubted(r, at) : r, opId, turn.via, at));
    case "inherit":
      return await own((r, at) => inherited(r.intent?.op === "create" ? doubted(r, at) : r, opId, at));
    case "blocked":
      return (await store((r, at) => (r.intent?.opId === opId ? cutWaitsForCall(r, turn.failure, at) : r))).changed;
    case "wait":
      wakeLater(relookMs, cutKey(record));
      return false;
  }
};

/** True = something was stored, so that the record is planned anew; false = it has to wait for something to change. */
export const runCutStep = async (
  deps: CutStepDeps,
  record: CutRecord,
  step: CutStep,
  traceId: string | undefined,
): Promise<boolean> => {
  const obstacle = obstacleTo(deps, record);
  if (obstacle !== "") {
    // Shown once: a wait stores nothing again, and what it waits for wakes it.
    await deps.cuts.change(record, (r, at) => (r.uid === record.uid ? cutWaits(r, obstacle, at) : r));
    return false;
  }
  const turn = await takeTurn(deps, record, traceId);
  if (typeof turn === "boolean") return turn;
  return step.do === "create" ? cut(deps, turn, traceId) : uncut(deps, turn, traceId);
};
