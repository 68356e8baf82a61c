import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { overtaken } from "../../domain/bar.ts";
import type { Failed, Outcome } from "../../domain/outcome.ts";
import { type CutBar, type CutRecord, cutKey } from "../../domain/snapshot/snapshot.ts";
import { type CutAnswer, readCut } from "../../domain/snapshot/snapshot-answer.ts";
import { cutBarLifted } from "../../domain/snapshot/snapshot-bar.ts";
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
import type { ControllerPlugins, Nodes, SnapshotPlugins, StoreGate } from "../../ports.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { Failpoint } from "../failpoints.ts";
import { liftBar, type Repeat } from "../owed/lift-bar.ts";
import type { Owed } from "../owed/owed-call.ts";
import { runOwed, takeTurn, withoutCall } from "../owed/run-owed.ts";
import { notCalled } from "../owed/under-intent.ts";
import type { CallSlots } from "../plugin/call-slots.ts";
import type { CallRights } from "../plugin/call-turn.ts";

/** What the steps of snapshots and groups work with. */
export interface CutStepDeps {
  readonly cuts: CutRecords;
  readonly plugins: SnapshotPlugins & Pick<ControllerPlugins, "seek" | "quiesce">;
  readonly gate: StoreGate;
  readonly nodes: Pick<Nodes, "get">;
  readonly slots: CallSlots;
  readonly clock: Clock;
  readonly failpoint: Failpoint;
  /** Which calls are this controller's to make. */
  readonly rights: CallRights;
  /** Looks at the record again after a while, if nothing wakes it before. */
  readonly wakeLater: (ms: number, key: string) => void;
  /** Calls that left and whose answers are not stored yet: by record, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  readonly log: Logger;
  readonly taking: AbortSignal;
  readonly signal: AbortSignal;
}

/** Snapshots and groups, as the engine of owed calls sees them. */
export const owedCuts = (deps: CutStepDeps): Owed<CutRecord, CutChange> => {
  const { cuts, plugins } = deps;
  return {
    ...deps,
    seek: (record) => plugins.seek(record),
    records: {
      orders: cuts.orders,
      keyOf: cutKey,
      known: async (record) => record,
      read: async (record) => (await cuts.get(record))?.record,
      async change(record, decide, options) {
        const { changed, now, crowded, order } = await cuts.change(record, decide, options);
        return { changed, record: now?.record, crowded, order };
      },
      keep: (record) => record,
      waits: cutWaitsForCall,
      overtaken,
      lifted: cutBarLifted,
      // A delete that is made twice leaves nothing behind.
      doubted: (record, at) => (record.intent?.op === "create" ? cutDoubted(record, at) : record),
    },
  };
};

/** Of the record that the step was planned for, unchanged as far as the call goes. */
const asPlanned =
  (planned: CutRecord) =>
  ({ state, goal, intent }: CutRecord): boolean =>
    state === planned.state && goal === planned.goal && intent?.op === planned.intent?.op;

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
  const { plugins } = deps;
  const owed = owedCuts(deps);
  const { intent } = record;
  // The question never left: the delete follows at once. One that this life has asked is finished first.
  if (record.state === "CUT" && record.goal === "absent" && intent !== undefined && intent.openSince === undefined)
    if (notCalled(owed, record).end === "not-sent") return await withoutCall(owed, record, traceId, cutUnwanted);
  return await runOwed<CutRecord, CutChange, CutAnswer>(owed, record, traceId, {
    point: "cut",
    request: { kind: "make", method: record.kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot" },
    attemptsOf: ({ attempts }) => attempts,
    stillRight: asPlanned(record),
    call: plugins.cut,
    answered: (r, outcome, at) => cutUnwanted(cutAttempted(r, outcome, at), at),
    crowded: async (value) => (r, at) => cutUnwanted(cutAttempted(r, idTaken(record, value), at), at),
  });
};

const besideGroup = (record: CutRecord, group: string): Failed<void> => ({
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
  const { plugins, gate } = deps;
  const owed = owedCuts(deps);
  if (!gate.state().open) return false;
  const group = backendGroupOf(record);
  if (group !== "")
    return await withoutCall(owed, record, traceId, (r, at) => cutDeleteAttempted(r, besideGroup(record, group), at));
  const right = asPlanned(record);
  return await runOwed(owed, record, traceId, {
    point: "uncut",
    request: { kind: "remove", method: record.kind === "group" ? "DeleteVolumeGroupSnapshot" : "DeleteSnapshot" },
    attemptsOf: ({ attempts }) => attempts,
    stillRight: (now) => right(now) && gate.state().open,
    call: plugins.deleteCut,
    answered: cutDeleteAttempted,
  });
};

/** Why the plugin cannot be asked now; empty when it can. What it has not told yet is waited for, and never taken for "no". */
const obstacleTo = ({ plugins }: CutStepDeps, { kind, plugin }: CutRecord): string => {
  const facts = plugins.snapshotFacts(plugin);
  if (!facts.ready) return facts.reason;
  return (kind === "group" ? facts.groups : facts.snapshots) === "unknown"
    ? `plugin ${plugin} has not told yet whether it cuts ${kind}s`
    : "";
};

/** An answer that is not about what the record has: its words stand at the bar, and the bar stands until a person has looked. */
const compared = (record: CutRecord, outcome: Outcome<CutAnswer>): Outcome<unknown> => {
  const reading = outcome.kind === "done" ? readCut(record, outcome.value) : undefined;
  if (reading === undefined || reading.kind === "fits") return outcome;
  return {
    kind: "unknown",
    failure: {
      reason: "INCOMPATIBLE",
      message: `plugin ${record.plugin}, asked for ${record.name} once more, ${reading.because}`,
      advice: "block",
      call: "ended",
    },
  };
};

/**
 * The call of the bar once more at its instance; undefined = the record has to move on first, since its own call asks for the same, or its id
 * is not known.
 */
const repeatOf = ({ plugins }: CutStepDeps, record: CutRecord, bar: CutBar): Repeat | undefined => {
  const { op, via, issuer, opId } = bar;
  if (record.externalId === "" || record.intent?.op === op) return undefined;
  const there: CutRecord = { ...record, intent: { op, issuer, opId, via } };
  return op === "delete"
    ? (context) => plugins.deleteCut(there, context)
    : async (context) => compared(record, await plugins.cut(there, context));
};

/** Finds out whether the overtaken call of a snapshot's or a group's bar has ended. */
const liftCutBar = (deps: CutStepDeps, record: CutRecord, bar: string, traceId: string | undefined): Promise<boolean> =>
  liftBar(
    owedCuts(deps),
    {
      gate: deps.gate,
      nodes: deps.nodes,
      quiesce: deps.plugins.quiesce,
      repeatOf: (now: CutRecord, one: CutBar) => repeatOf(deps, now, one),
    },
    record,
    bar,
    traceId,
  );

/** True = something was stored, so that the record is planned anew; false = it has to wait for something to change. */
export const runCutStep = async (
  deps: CutStepDeps,
  record: CutRecord,
  step: CutStep,
  traceId: string | undefined,
): Promise<boolean> => {
  if (step.do === "lift") return await liftCutBar(deps, record, step.bar, traceId);
  const obstacle = obstacleTo(deps, record);
  if (obstacle !== "") {
    // Shown once: a wait stores nothing again, and what it waits for wakes it.
    await deps.cuts.change(record, (r, at) => (r.uid === record.uid ? cutWaits(r, obstacle, at) : r));
    return false;
  }
  const turn = await takeTurn(owedCuts(deps), record, traceId);
  if (typeof turn === "boolean") return turn;
  return step.do === "create" ? cut(deps, turn, traceId) : uncut(deps, turn, traceId);
};
