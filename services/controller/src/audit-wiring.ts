/** A part of the composition root: the audit, where who did what is written down beside the store. */

import { createCallAudit } from "@holdfast/csi/call-audit";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import { traceIdOf } from "@holdfast/model/trace-id";
import { afterTurn } from "@holdfast/shared/async/after-turn";
import type { Clock } from "@holdfast/shared/async/clock";
import { openAudit } from "@holdfast/shared/audit/open-audit";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { createAuditMiddleware } from "./api/audit/audit-middleware.ts";
import { createActAudit } from "./audit/act-audit.ts";
import type { ControllerConfig } from "./config.ts";
import { createCallMetrics } from "./controller-metrics.ts";
import type { Ids, Store } from "./ports.ts";
import { createAuditRecords } from "./records/audit-records.ts";

export interface AuditParts {
  readonly config: Pick<ControllerConfig, "stateDir" | "auditDir" | "auditFiles" | "insecure" | "allowVolatileStore">;
  readonly id: string;
  /** This life of the controller. */
  readonly issuer: string;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly store: Store;
  readonly ids: Ids;
  readonly tracing: Tracing;
  readonly log: Logger;
}

export const wireAudit = async (parts: AuditParts) => {
  const { config, id, issuer, lifecycle, metrics, clock, tracing, log } = parts;
  const by = { service: "controller", life: issuer };
  const audit = await openAudit(config, { by, now: clock.now, log, metrics });
  await lifecycle.start("audit", () => audit.close);
  const measure = createCallMetrics(metrics, { insecure: config.insecure, volatileStore: config.allowVolatileStore });
  const write = createCallAudit(audit.trail("calls"));
  const acts = createActAudit({
    trail: audit.trail("acts"),
    reads: audit.trail("secrets"),
    records: createAuditRecords(parts),
    self: formatIdentity({ role: "controller", name: id }),
    clock,
    traceId: () => traceIdOf(tracing.currentTraceparent()),
  });
  return {
    acts,
    /** Around the calls of each service. */
    around: createAuditMiddleware({ acts, tracing }),
    /** Each call of a plugin, as it ends. */
    onCall(report: CallReport): void {
      afterTurn(() => {
        measure.onCall(report);
        write(report);
      });
    },
  };
};
