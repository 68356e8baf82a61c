/** A part of the composition root: the audit, where who did what is written down beside the store. */
import { createCallAudit } from "@holdfast/csi/call-audit";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { Clock } from "@holdfast/shared/async/clock";
import { openAudit } from "@holdfast/shared/audit/open-audit";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { ControllerConfig } from "./config.ts";
import { createCallMetrics } from "./controller-metrics.ts";

export interface AuditParts {
  readonly config: Pick<ControllerConfig, "stateDir" | "auditDir" | "auditFiles" | "insecure" | "allowVolatileStore">;
  /** This life of the controller. */
  readonly issuer: string;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

export const wireAudit = async ({ config, issuer, lifecycle, metrics, clock, log }: AuditParts) => {
  const by = { service: "controller", life: issuer };
  const audit = await openAudit(config, { by, now: clock.now, log, metrics });
  await lifecycle.start("audit", () => audit.close);
  const measure = createCallMetrics(metrics, { insecure: config.insecure, volatileStore: config.allowVolatileStore });
  const write = createCallAudit(audit.trail("calls"));
  return {
    /** Each call of a plugin, as it ends. */
    onCall(report: CallReport): void {
      measure.onCall(report);
      write(report);
    },
  };
};
