/** A part of the composition root: snapshots and groups of them. */
import type { ApiDeps } from "./api/api-deps.ts";
import { createSnapshotService } from "./api/snapshot-service.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createSnapshotCommands } from "./commands/snapshot-commands.ts";
import { createSnapshotReconciler, type SnapshotReconcilerDeps } from "./reconcile/snapshot-reconciler.ts";

export interface SnapshotParts
  extends CommandDeps,
    Pick<SnapshotReconcilerDeps, "log" | "signal" | "slots" | "failpoint">,
    Pick<ApiDeps, "wakeups" | "tracing"> {}

export const wireSnapshots = (parts: SnapshotParts) => ({
  service: createSnapshotService({ ...parts, snapshots: createSnapshotCommands(parts) }),
  reconciler: createSnapshotReconciler(parts),
});
