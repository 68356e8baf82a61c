import { checkId, checkSecretRef } from "../../domain/limits.ts";
import { type Orphan, orphanRemedy } from "../../domain/repair/orphan.ts";
import type { OrphanRecords } from "../../records/orphan-records.ts";
import type { Caller } from "../model.ts";
import type { SecretReferences } from "../secret/secret-model.ts";
import { refuse } from "../volume/validate-volume.ts";
import { type RemoveAttachmentDeps, removeAttachment } from "./remove-attachment.ts";
import { type RemoveSnapshotDeps, removeSnapshot } from "./remove-snapshot.ts";
import { type RemoveStorageDeps, removalId, removeStorage } from "./remove-storage.ts";
import { orphanNotFound, repairNotApplicable } from "./repair-errors.ts";
import type { RemoveOrphanInput, RepairOutcome } from "./repair-model.ts";
import { doneBefore } from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

export interface OrphanRemoval {
  readonly outcome: RepairOutcome;
  /** The record under which it is removed. */
  readonly namespace: string;
  readonly volume: string;
}

export type RemoveOrphan = (input: RemoveOrphanInput, caller: Caller) => Promise<OrphanRemoval>;

export interface RemoveOrphanDeps extends RemoveAttachmentDeps, RemoveStorageDeps, RemoveSnapshotDeps {
  readonly records: RemoveAttachmentDeps["records"];
  readonly clock: RemoveAttachmentDeps["clock"] & RemoveStorageDeps["clock"];
  readonly gate: RemoveStorageDeps["gate"];
  readonly secrets: RemoveStorageDeps["secrets"] & Pick<SecretReferences, "granted">;
  readonly ids: RemoveStorageDeps["ids"];
  readonly audit: RemoveStorageDeps["audit"];
  readonly orphans: Pick<OrphanRecords, "get">;
}

/** The approved removal of one orphan. What is removed is named by the scan, never by the caller. */
export const removeOrphanCommand = (deps: RemoveOrphanDeps): RemoveOrphan => {
  const remove = async (input: RemoveOrphanInput, orphan: Orphan, caller: Caller): Promise<OrphanRemoval> => {
    switch (orphan.kind) {
      case "attachment":
        return {
          outcome: await removeAttachment(deps, input, orphan, caller),
          namespace: orphan.namespace,
          volume: orphan.volume,
        };
      case "storage":
        return {
          outcome: await removeStorage(deps, input, orphan, caller),
          namespace: input.namespace,
          volume: removalId(orphan),
        };
      case "snapshot":
        return {
          outcome: await removeSnapshot(deps, input, orphan, caller),
          namespace: input.namespace,
          volume: removalId(orphan),
        };
      case "mount":
      case "record":
        throw repairNotApplicable(
          `orphan ${orphan.id}`,
          `a ${orphan.kind}`,
          `this verb does not remove such: ${orphanRemedy(orphan)}`,
          { orphan_id: orphan.id },
        );
    }
  };

  const whereOf = async (auditId: string): Promise<Pick<OrphanRemoval, "namespace" | "volume">> => {
    const subject = (await deps.audit.get(auditId))?.subject;
    return { namespace: subject?.namespace ?? "", volume: subject?.volume ?? "" };
  };

  return async (input, caller) => {
    refuse([
      ...(input.orphanId === "" ? [{ field: "orphan_id", description: "is required" }] : []),
      ...checkId("namespace", input.namespace),
      ...(input.secretRef === undefined
        ? []
        : checkSecretRef("secrets.ref", input.secretRef, input.namespace, deps.secrets.granted)),
      ...checkEvidence(input.evidence),
      ...checkRepair(input),
    ]);
    const { audit } = deps;
    const asked = { orphan: input.orphanId };
    const before = input.dryRun ? undefined : await doneBefore(audit, "RemoveOrphan", input.requestId, asked);
    if (before !== undefined) return { outcome: before, ...(await whereOf(before.auditId)) };
    const orphan = await deps.orphans.get(input.orphanId);
    if (orphan === undefined) throw orphanNotFound(input.orphanId);
    try {
      return await remove(input, orphan, caller);
    } catch (error) {
      // The same request at the same time was faster: its record answers both.
      const raced = input.dryRun ? undefined : await doneBefore(audit, "RemoveOrphan", input.requestId, asked);
      if (raced === undefined) throw error;
      return { outcome: raced, ...(await whereOf(raced.auditId)) };
    }
  };
};
