import { zeroEpoch } from "@holdfast/model/epoch";
import { volumeNote } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import { explainCommand } from "../../domain/operator-command.ts";
import type { Orphan } from "../../domain/repair/orphan.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { BackendListings, Ids, StoreGate } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { VolumeScan } from "../../records/volume/volume-scan.ts";
import type { CommandDeps } from "../command-deps.ts";
import { storeUnvetted } from "../errors.ts";
import type { Caller } from "../model.ts";
import { bornVolume } from "../volume/born-volume.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { RemoveOrphanInput, RepairOutcome } from "./repair-model.ts";
import { auditEntry, type Judgement, requireConfirmed, wouldBe } from "./repair-verb.ts";

export interface RemoveStorageDeps {
  readonly records: Pick<VolumeRecords, "owner" | "adopt">;
  readonly scan: Pick<VolumeScan, "beingMade">;
  readonly audit: AuditRecords;
  readonly listings: Pick<BackendListings, "can" | "volume">;
  readonly gate: Pick<StoreGate, "state">;
  readonly secrets: Pick<CommandDeps["secrets"], "expected">;
  readonly clock: { now(): number };
  readonly ids: Pick<Ids, "uuid">;
  readonly signal: AbortSignal;
}

/** The id under which storage that is nobody's is deleted: the same one for the same storage. */
export const removalId = ({ id }: Orphan): string => `orphan-${id}`;

/** A record whose only wish is to be gone: the same intent, repeats and explanations as of any other deletion. */
const leaving = (input: RemoveOrphanInput, orphan: Orphan, caller: Caller, uid: string, at: Moment): VolumeRecord => {
  const { name: _none, ...born } = {
    name: "",
    ...bornVolume(
      {
        namespace: input.namespace,
        id: removalId(orphan),
        plugin: orphan.plugin,
        parameters: {},
        mutableParameters: {},
        capabilities: [],
        capacity: { required: 0, limit: 0 },
        secretRefs: input.secretRef === undefined ? {} : { delete: input.secretRef },
        labels: { "holdfast.orphan": orphan.id },
        policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
        requestId: input.requestId,
      },
      { ...caller, why: `RemoveOrphan: ${input.reason}` },
      uid,
      at,
    ),
  };
  return {
    ...born,
    name: "",
    externalId: orphan.externalId,
    topology: { required: [], preferred: [], accessible: [] },
    contentSource: { kind: "none" },
    context: {},
    state: "DELETING",
    goal: "absent",
    intent: { op: "delete", epoch: zeroEpoch, issuer: at.issuer, opId: at.opId },
  };
};

/** Everything that speaks against it, asked anew: a scan may be a day old. */
const refuseUnlessNobodys = async (deps: RemoveStorageDeps, orphan: Orphan, what: string): Promise<void> => {
  const { gate, records, scan, listings, signal } = deps;
  if (!gate.state().open) throw storeUnvetted(gate.state().reason);
  const owner = (await records.owner(orphan))?.volume;
  const metadata = { plugin: orphan.plugin, external_id: orphan.externalId };
  if (owner !== undefined)
    throw repairNotApplicable(what, "owned", `it is volume ${volumeKey(owner)}; delete that one`, metadata);
  const making = await scan.beingMade(orphan.plugin);
  if (making !== undefined)
    throw repairNotApplicable(
      what,
      "possibly owned",
      `CreateVolume for volume ${volumeKey(making)} has no answer yet and may have made it; settle that volume first (${explainCommand(making)})`,
      metadata,
    );
  if (listings.can(orphan.plugin).single !== "yes") return;
  const answer = await listings.volume(orphan.plugin, orphan.externalId, signal);
  if (answer.kind !== "done") return;
  if (answer.value === undefined)
    throw repairNotApplicable(what, "gone", "the backend does not have it any more; scan again", metadata);
  const nodes = answer.value.publishedNodes ?? [];
  if (nodes.length > 0)
    throw repairNotApplicable(
      what,
      "attached",
      `the backend has it attached to ${nodes.join(", ")}; adopt it (holdfast repair adopt) or detach it there first`,
      metadata,
    );
};

const judge = (orphan: Orphan, what: string, volume: string): Judgement => ({
  confirmWith: `destroy storage ${orphan.externalId} of plugin ${orphan.plugin}: nobody needs what is on it`,
  effects: [
    `${what} is deleted (DeleteVolume, repeated until the plugin answers that it is done), under the record ${volume}`,
  ],
  risks: [
    `what is on it is lost for ever, whoever it belongs to (${orphan.detail})`,
    "another installation that shares the backend may own it",
  ],
  subject: { plugin: orphan.plugin, externalId: orphan.externalId, orphan: orphan.id },
});

export const removeStorage = async (
  deps: RemoveStorageDeps,
  input: RemoveOrphanInput,
  orphan: Orphan,
  caller: Caller,
): Promise<RepairOutcome> => {
  const { records, audit, clock, ids } = deps;
  const key = `${input.namespace}/${removalId(orphan)}`;
  const what = `storage ${orphan.externalId} of plugin ${orphan.plugin}`;
  await refuseUnlessNobodys(deps, orphan, what);
  const judgement = judge(orphan, what, key);
  if (input.dryRun) return wouldBe(judgement);
  requireConfirmed(judgement, input);
  const uid = ids.uuid();
  const auditId = audit.newId(clock.now());
  const subject = { ...judgement.subject, namespace: input.namespace, volume: removalId(orphan), volumeUid: uid };
  const entry = auditEntry("RemoveOrphan", input, caller, { ...judgement, subject });
  const adopted = await records.adopt(
    (at) => {
      const volume = leaving(input, orphan, caller, uid, at);
      return { volume, ended: [], notes: [volumeNote(volume)], audit: { id: auditId, entry } };
    },
    { inSpite: true, expects: () => deps.secrets.expected(input.secretRef === undefined ? [] : [input.secretRef]) },
  );
  if (adopted.kind !== "made")
    throw repairNotApplicable(what, "owned", `it is being removed already, or somebody registered it: ${key}`, {
      plugin: orphan.plugin,
      external_id: orphan.externalId,
    });
  const { effects, risks } = judgement;
  return { dryRun: false, effects, risks, auditId, confirmWith: "" };
};
