import type { Moment } from "../../domain/moment.ts";
import { noAttempts } from "../../domain/outcome.ts";
import type { Orphan } from "../../domain/repair/orphan.ts";
import type { SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { Ids, StoreGate } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import { storeUnvetted } from "../errors.ts";
import type { Caller } from "../model.ts";
import { removalId } from "./remove-storage.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { RemoveOrphanInput, RepairOutcome } from "./repair-model.ts";
import { auditEntry, type Judgement, requireConfirmed, wouldBe } from "./repair-verb.ts";

export interface RemoveSnapshotDeps {
  readonly cuts: Pick<CutRecords, "insert" | "list">;
  /** Whose it is, and what may be being cut, as the sweep asks. */
  readonly snapshotFacts: {
    owner(plugin: string, externalId: string): Promise<{ readonly namespace: string; readonly id: string } | undefined>;
    beingCut(plugin: string): Promise<{ readonly namespace: string; readonly id: string } | undefined>;
  };
  readonly secrets: Pick<CommandDeps["secrets"], "expected">;
  readonly audit: AuditRecords;
  readonly gate: Pick<StoreGate, "state">;
  readonly clock: { now(): number };
  readonly ids: Pick<Ids, "uuid">;
}

/** A record whose only wish is to be gone. */
const leaving = (
  input: RemoveOrphanInput,
  orphan: Orphan,
  caller: Caller,
  uid: string,
  at: Moment,
): SnapshotRecord => ({
  kind: "snapshot",
  namespace: input.namespace,
  id: removalId(orphan),
  uid,
  name: "",
  externalId: orphan.externalId,
  plugin: orphan.plugin,
  pluginVersion: "",
  parameters: {},
  secretRefs: input.secretRef === undefined ? {} : { delete: input.secretRef },
  labels: { "holdfast.orphan": orphan.id },
  cutAt: 0,
  state: "DELETING",
  goal: "absent",
  intent: { op: "delete", issuer: at.issuer, opId: at.opId },
  bars: [],
  attempts: noAttempts,
  polls: 0,
  requestId: input.requestId,
  createdAt: at.now,
  updatedAt: at.now,
  stateSince: at.now,
  changedBy: { who: caller.who, why: `RemoveOrphan: ${input.reason}` },
  volume: "",
  volumeUid: "",
  externalVolumeId: "",
  group: "",
  externalGroupId: "",
  sizeBytes: orphan.sizeBytes,
});

const refuseUnlessNobodys = async (deps: RemoveSnapshotDeps, orphan: Orphan, what: string): Promise<void> => {
  const { gate, snapshotFacts } = deps;
  if (!gate.state().open) throw storeUnvetted(gate.state().reason);
  const metadata = { plugin: orphan.plugin, external_id: orphan.externalId };
  const owner = await snapshotFacts.owner(orphan.plugin, orphan.externalId);
  if (owner !== undefined)
    throw repairNotApplicable(what, "owned", `it is snapshot ${volumeKey(owner)}; delete that one`, metadata);
  const cutting = await snapshotFacts.beingCut(orphan.plugin);
  if (cutting !== undefined)
    throw repairNotApplicable(
      what,
      "possibly owned",
      `what is being cut for ${volumeKey(cutting)} has no answer yet and may be it; wait until that is settled`,
      metadata,
    );
};

/**
 * The approved deletion of a snapshot that no record stands for: the commit that begins it compares that once more, and carries what was
 * approved. What is asked first may be over by then.
 */
export const removeSnapshot = async (
  deps: RemoveSnapshotDeps,
  input: RemoveOrphanInput,
  orphan: Orphan,
  caller: Caller,
): Promise<RepairOutcome> => {
  const { cuts, audit, clock, ids } = deps;
  const what = `snapshot ${orphan.externalId} of plugin ${orphan.plugin}`;
  const key = `${input.namespace}/${removalId(orphan)}`;
  await refuseUnlessNobodys(deps, orphan, what);
  const judgement: Judgement = {
    confirmWith: `destroy snapshot ${orphan.externalId} of plugin ${orphan.plugin}: nobody needs it`,
    effects: [
      `${what} is deleted (DeleteSnapshot, repeated until the plugin answers that it is done), under the record ${key}`,
    ],
    risks: [
      `what it keeps is lost for ever, whoever it belongs to (${orphan.detail})`,
      "another installation that shares the backend may own it",
    ],
    subject: {
      plugin: orphan.plugin,
      externalId: orphan.externalId,
      orphan: orphan.id,
      namespace: input.namespace,
      volume: removalId(orphan),
    },
  };
  if (input.dryRun) return wouldBe(judgement);
  requireConfirmed(judgement, input);
  const uid = ids.uuid();
  const auditId = audit.newId(clock.now());
  const subject = { ...judgement.subject, volumeUid: uid };
  const entry = auditEntry("RemoveOrphan", input, caller, { ...judgement, subject });
  const expects = input.secretRef === undefined ? [] : await deps.secrets.expected([input.secretRef]);
  const stored = await cuts.insert((at) => leaving(input, orphan, caller, uid, at), expects, {
    audit: { id: auditId, entry },
  });
  if (stored !== "stored")
    throw repairNotApplicable(what, "owned", `it is being removed already, or a record stands for it by now: ${key}`, {
      plugin: orphan.plugin,
      external_id: orphan.externalId,
    });
  const { effects, risks } = judgement;
  return { dryRun: false, effects, risks, auditId, confirmWith: "" };
};
