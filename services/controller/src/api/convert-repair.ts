import type {
  AuditRecord as WireAudit,
  RepairOutcome as WireOutcome,
  Stuck as WireStuck,
} from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Stuck } from "../commands/repair/list-stuck.ts";
import type { Asked, RepairOutcome } from "../commands/repair/repair-model.ts";
import type { AuditRecord } from "../domain/audit.ts";
import { blockedMessage, dateOf } from "./convert-message.ts";

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
  revisionBefore: BigInt(record.revisionBefore),
});

export const stuckMessage = ({
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
  volume: volume.id,
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
