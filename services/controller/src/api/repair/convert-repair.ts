import {
  type ScanOrphansResponse,
  type AuditRecord as WireAudit,
  OrphanKind as WireKind,
  type Orphan as WireOrphan,
  type RepairOutcome as WireOutcome,
  type Stuck as WireStuck,
} from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Stuck } from "../../commands/repair/list-stuck.ts";
import type { Asked, RepairOutcome } from "../../commands/repair/repair-model.ts";
import type { ScanItem } from "../../commands/repair/scan-orphans.ts";
import type { AuditRecord } from "../../domain/repair/audit.ts";
import { type Orphan, type OrphanKind, orphanKinds, orphanRemedy } from "../../domain/repair/orphan.ts";
import type { Checks } from "../check-request.ts";
import { blockedMessage, dateOf, lastErrorMessage } from "../convert-message.ts";

const kindMessages: Record<OrphanKind, WireKind> = {
  mount: WireKind.ORPHAN_KIND_MOUNT,
  attachment: WireKind.ORPHAN_KIND_ATTACHMENT,
  storage: WireKind.ORPHAN_KIND_STORAGE,
  record: WireKind.ORPHAN_KIND_RECORD,
  snapshot: WireKind.ORPHAN_KIND_SNAPSHOT,
};

export const orphanKindsFrom = (field: string, wire: readonly WireKind[], checks: Checks): readonly OrphanKind[] =>
  wire.flatMap((kind, i) => {
    const found = orphanKinds.find((known) => kindMessages[known] === kind);
    if (found === undefined) checks.complain(`${field}[${i}]`, "is no kind of orphan");
    return found ?? [];
  });

const orphanMessage = (orphan: Orphan): WireOrphan => ({
  kind: kindMessages[orphan.kind],
  node: orphan.node,
  plugin: orphan.plugin,
  externalId: orphan.externalId,
  namespace: orphan.namespace,
  volume: orphan.volume,
  path: orphan.path,
  foundAt: dateOf(orphan.foundAt),
  clearWith: orphanRemedy(orphan),
  id: orphan.id,
  driverNodeId: orphan.driverNodeId,
  sizeBytes: BigInt(orphan.sizeBytes),
  detail: orphan.detail,
  seenAt: dateOf(orphan.seenAt),
});

/** One of the stream's kinds and none of the others. */
export const scanMessage = (item: ScanItem): ScanOrphansResponse => {
  const none = { orphan: undefined, gap: undefined, outcome: undefined, progress: undefined, cleaned: false };
  switch (item.kind) {
    case "orphan":
      return { ...none, orphan: orphanMessage(item.orphan), cleaned: item.cleaned };
    case "gap": {
      const { node, plugin, reason, message } = item.gap;
      const error = lastErrorMessage({ reason, message, at: 0 }, { plugin, node });
      return { ...none, gap: { node, plugin, error } };
    }
    case "progress":
      return { ...none, progress: { plugin: item.plugin, entries: BigInt(item.entries), pages: item.pages } };
    case "outcome":
      return { ...none, outcome: outcomeMessage(item.outcome) };
  }
};

export const outcomeMessage = ({ dryRun, effects, risks, auditId, confirmWith }: RepairOutcome): WireOutcome => ({
  dryRun,
  consequence: { effects: [...effects], risks: [...risks] },
  auditId,
  confirmWith,
});

export const askedFrom = ({ reason, dryRun, confirm, requestId }: Asked): Asked => ({
  reason,
  dryRun,
  confirm,
  requestId,
});

export const auditMessage = (record: AuditRecord): WireAudit => ({
  id: record.id,
  at: dateOf(record.at),
  who: record.who,
  verb: record.verb,
  reason: record.reason,
  evidence: record.evidence,
  confirmed: record.confirmed,
  consequence: { effects: [...record.effects], risks: [...record.risks] },
  requestId: record.requestId,
  traceId: record.traceId,
  namespace: record.subject.namespace ?? "",
  volume: record.subject.volume ?? "",
  volumeUid: record.subject.volumeUid ?? "",
  plugin: record.subject.plugin ?? "",
  externalId: record.subject.externalId ?? "",
  node: record.subject.node ?? "",
  workload: record.subject.workload ?? "",
  claimUid: record.subject.claimUid ?? "",
  orphanId: record.subject.orphan ?? "",
  revisionBefore: BigInt(record.revisionBefore),
});

export const stuckMessage = ({
  of,
  volume,
  workload,
  alias,
  claimUid,
  node,
  state,
  blocked,
  attempts,
}: Stuck): WireStuck => ({
  namespace: volume.namespace,
  volume: of === "volume" ? volume.id : "",
  snapshot: of === "snapshot" ? volume.id : "",
  snapshotGroup: of === "group" ? volume.id : "",
  plugin: volume.plugin,
  workload,
  alias,
  claimUid,
  node,
  state,
  blocked: blockedMessage(blocked),
  attempts: attempts.count,
  nextTry: dateOf(attempts.nextTry),
});
