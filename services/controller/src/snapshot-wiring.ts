/** A part of the composition root: snapshots and groups of them. */
import type { Metrics } from "@holdfast/shared/metrics";
import type { ApiDeps } from "./api/api-deps.ts";
import { createSnapshotService } from "./api/snapshot/snapshot-service.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createSnapshotCommands } from "./commands/snapshot/snapshot-commands.ts";
import { createSnapshotReconciler, type SnapshotReconcilerDeps } from "./reconcile/engine/snapshot-reconciler.ts";
import { createSnapshotStanding } from "./records/snapshot-standing.ts";
import { measureSnapshots } from "./standing-metrics.ts";

export interface SnapshotParts
  extends CommandDeps,
    Pick<SnapshotReconcilerDeps, "bars" | "drivers" | "failpoint" | "lives" | "log" | "signal" | "taking" | "slots">,
    Pick<ApiDeps, "wakeups" | "tracing" | "granted" | "scopeOf"> {
  readonly metrics: Metrics;
}

export const wireSnapshots = (parts: SnapshotParts) => {
  const reconciler = createSnapshotReconciler(parts);
  measureSnapshots(parts.metrics, {
    standing: createSnapshotStanding(parts),
    working: reconciler.size,
    now: parts.clock.now,
  });
  return { service: createSnapshotService({ ...parts, snapshots: createSnapshotCommands(parts) }), reconciler };
};
