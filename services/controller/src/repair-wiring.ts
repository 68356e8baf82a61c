/** The part of the controller that finds what is nobody's and does what a person decides. */
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { createRepairService } from "./api/repair-service.ts";
import type { VetGate } from "./api/repair-vet.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createRepairCommands } from "./commands/repair/repair-commands.ts";
import type { AgentGateway, BackendListings, NodeDecisions, Nodes, Store, StoreGate } from "./ports.ts";
import { createSweep } from "./reconcile/sweep.ts";
import { createTwoWayPass } from "./reconcile/two-way-pass.ts";
import { beingCut, snapshotOwner } from "./reconcile/two-way-snapshots.ts";
import { createAuditRecords } from "./records/audit-records.ts";
import type { DamagedRecords } from "./records/damaged-records.ts";
import { createOrphanRecords } from "./records/orphan-records.ts";
import { createVolumeScan } from "./records/volume-scan.ts";
import { measureSweep } from "./sweep-metrics.ts";

export interface RepairParts extends CommandDeps {
  readonly store: Store;
  readonly damages: DamagedRecords;
  readonly nodes: Nodes & NodeDecisions;
  readonly agents: AgentGateway;
  readonly listings: BackendListings;
  readonly gate: StoreGate & VetGate;
  readonly sweepIntervalMs: number;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export const wireRepair = (parts: RepairParts) => {
  const { store, ids, clock, damages, gate, tracing, sweepIntervalMs } = parts;
  const audit = createAuditRecords({ store, ids, damages });
  const orphans = createOrphanRecords({ store, clock, ids, damages });
  const scan = createVolumeScan(store, damages);
  const snapshotFacts = {
    owner: (plugin: string, externalId: string) => snapshotOwner(parts, plugin, externalId),
    beingCut: (plugin: string) => beingCut(parts, plugin),
  };
  const pass = createTwoWayPass({ ...parts, orphans, scan });
  const commands = createRepairCommands({ ...parts, audit, orphans, scan, pass, snapshotFacts });
  const sweep = createSweep({ ...parts, pass, random: ids.random, intervalMs: sweepIntervalMs });
  measureSweep(parts.metrics, sweep, clock.now);
  return { service: createRepairService({ gate, audit, clock, tracing, commands }), sweep };
};
