import type { Clock } from "@holdfast/shared/async/clock";
import type { Failure, Outcome } from "../domain/outcome.ts";
import { type CutRecord, cutKey } from "../domain/snapshot.ts";
import type { CutAnswer } from "../domain/snapshot-answer.ts";
import { backendGroupOf, cutAttempted, cutDeleteAttempted, cutDoubted, cutWaits } from "../domain/snapshot-change.ts";
import type { CutStep } from "../domain/snapshot-steps.ts";
import { volumeKey } from "../domain/volume.ts";
import type { SnapshotPlugins, StoreGate } from "../ports.ts";
import type { CutRecords } from "../records/snapshot-records.ts";
import type { CallSlots, SlotRequest } from "./call-slots.ts";
import type { SnapshotFailpoint } from "./snapshot-failpoints.ts";
import { settle } from "./step-run.ts";

/** What the steps of snapshots and groups work with. */
export interface CutStepDeps {
  readonly cuts: CutRecords;
  readonly plugins: SnapshotPlugins;
  readonly gate: StoreGate;
  readonly slots: CallSlots;
  readonly clock: Clock;
  readonly failpoint: (name: SnapshotFailpoint) => void | Promise<void>;
  /** Calls that left and whose answers are not stored yet: by record, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  readonly signal: AbortSignal;
}

/** The record as it is when its call leaves: waiting for a slot may have taken long, and somebody may have given it up meanwhile. */
const currentOf = async ({ cuts }: CutStepDeps, record: CutRecord): Promise<CutRecord | undefined> => {
  const now = (await cuts.get(record))?.record;
  return now?.uid === record.uid && now.state === record.state ? now : undefined;
};

/** The id that the plugin answered stands for another record: to believe it would let one delete the other's snapshot. */
const idTaken = (record: CutRecord, { externalId }: CutAnswer): Outcome<CutAnswer> => ({
  kind: "refused",
  failure: {
    reason: "INCOMPATIBLE",
    message: `plugin ${record.plugin} answered for ${record.kind} ${volumeKey(record)} with ${externalId}, of which a snapshot is on record for another`,
    advice: "block",
  },
});

/**
 * CreateSnapshot, or its group form, under the stored name: a repeat finds what an attempt without answer may have made, and tells
 * whether it is ready.
 */
const cut = async (deps: CutStepDeps, record: CutRecord, traceId: string | undefined): Promise<boolean> => {
  const { cuts, plugins, slots, signal, unstored } = deps;
  const key = cutKey(record);
  let before = false;
  const request = {
    plugin: record.plugin,
    kind: "make",
    method: record.kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot",
    repeat: record.attempts.count > 0,
  } as const;
  const outcome = await slots.run(request, signal, async () => {
    const now = await currentOf(deps, record);
    // What it would cut now is nobody's.
    if (now === undefined) return undefined;
    // An earlier call of this life was answered, and nobody could store what: a refusal now proves nothing (I5).
    before = now.intent !== undefined && unstored.get(key) === now.intent.opId;
    if (now.intent !== undefined) unstored.set(key, now.intent.opId);
    const wanted = async (): Promise<boolean> => (await currentOf(deps, record)) !== undefined;
    return settle(deps, "cut", () => plugins.cut(now, { signal, attempt: now.attempts.count + 1, wanted }));
  });
  if (outcome === undefined) return false;
  const store = (result: Outcome<CutAnswer>) =>
    cuts.change(
      record,
      (r, at) => (r.uid === record.uid ? cutAttempted(before ? cutDoubted(r, at) : r, result, at) : r),
      { traceId },
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

const besideGroup = (record: CutRecord, group: string): Failure => ({
  reason: "BACKEND_GROUP",
  message: `plugin ${record.plugin} says that snapshot ${record.externalId} can be deleted only together with its group ${group}, which Holdfast did not make`,
  advice: "block",
});

/**
 * DeleteSnapshot, or its group form with the exact ids, until it is known to be gone. Not while the store is unvetted: the record may
 * be older than a wish that the store has lost, and a deletion cannot be taken back.
 */
const uncut = async (deps: CutStepDeps, record: CutRecord, traceId: string | undefined): Promise<boolean> => {
  const { cuts, plugins, slots, gate, signal } = deps;
  if (!gate.state().open) return false;
  const group = backendGroupOf(record);
  const outcome =
    group !== ""
      ? ({ kind: "refused", failure: besideGroup(record, group) } as const)
      : await slots.run(removal(record), signal, async () => {
          const now = await currentOf(deps, record);
          if (now === undefined || !gate.state().open) return undefined;
          return settle(deps, "uncut", () => plugins.deleteCut(now, { signal, attempt: now.attempts.count + 1 }));
        });
  if (outcome === undefined) return false;
  const { changed } = await cuts.change(
    record,
    (r, at) => (r.uid === record.uid ? cutDeleteAttempted(r, outcome, at) : r),
    { traceId },
  );
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
  return step.do === "create" ? cut(deps, record, traceId) : uncut(deps, record, traceId);
};
