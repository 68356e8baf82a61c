/** A part of the composition root: what each call of a plugin leaves, in the metrics and in the audit, and what people accept. */
import { createCallAudit } from "@holdfast/csi/call-audit";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { PluginAdmission } from "@holdfast/csi/plugin-admission";
import { afterTurn } from "@holdfast/shared/async/after-turn";
import { openAudit } from "@holdfast/shared/audit/open-audit";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { createAgentMetrics } from "./agent-metrics.ts";
import type { AgentConfig } from "./config.ts";
import { auditedAcceptance } from "./plugins/audited-acceptance.ts";
import type { Ledger } from "./ports.ts";
import type { Journal } from "./volumes/journal.ts";

export interface AuditParts {
  readonly config: Pick<AgentConfig, "node" | "stateDir" | "auditDir" | "auditFiles">;
  /** This life of the agent. */
  readonly instance: string;
  readonly ledger: Ledger;
  readonly journal: Pick<Journal, "syncs" | "bytes" | "waitsBecause">;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly metrics: Metrics;
  readonly log: Logger;
}

export const wireAudit = async (parts: AuditParts) => {
  const { config, instance, lifecycle, metrics, log } = parts;
  const by = { service: "node-agent", node: config.node, life: instance };
  const audit = await openAudit(config, { by, now: Date.now, log, metrics });
  await lifecycle.start("audit", () => audit.close);
  const { onCall: measure } = createAgentMetrics(metrics, parts);
  const write = createCallAudit(audit.trail("calls"));
  const acts = audit.trail("acts");
  return {
    onCall(report: CallReport): void {
      afterTurn(() => {
        measure(report);
        write(report);
      });
    },
    accepting: (admission: PluginAdmission) => auditedAcceptance(admission, acts),
  };
};
