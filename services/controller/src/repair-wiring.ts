/** The part of the controller that finds what is nobody's and does what a person decides. */
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import type { AgentGateway } from "./agent-ports.ts";
import { createGrantService } from "./api/access/grant-service.ts";
import type { ApiDeps } from "./api/api-deps.ts";
import { createQuotaService } from "./api/quota/quota-service.ts";
import { createRepairService } from "./api/repair/repair-service.ts";
import type { VetGate } from "./api/repair/repair-vet.ts";
import { createAccessCommands } from "./commands/access/access-commands.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createQuotaCommands } from "./commands/quota/quota-commands.ts";
import type { ControllerWords } from "./commands/repair/forget-controller.ts";
import { createRepairCommands } from "./commands/repair/repair-commands.ts";
import { createUpgradeCommands } from "./commands/upgrade/upgrade-commands.ts";
import { readableFormats } from "./domain/store-format.ts";
import type { BackendListings, NodeDecisions, Nodes, Store, StoreGate } from "./ports.ts";
import { createSweep } from "./reconcile/two-way/sweep.ts";
import { createTwoWayPass } from "./reconcile/two-way/two-way-pass.ts";
import { beingCut, snapshotOwner } from "./reconcile/two-way/two-way-snapshots.ts";
import type { AccessGrants } from "./records/access/access-grants.ts";
import { createAuditRecords } from "./records/audit-records.ts";
import type { DamagedRecords } from "./records/damaged-records.ts";
import { createOrphanRecords } from "./records/orphan-records.ts";
import type { QuotaRecords } from "./records/quota/quota-records.ts";
import { createRosterRecords } from "./records/roster-records.ts";
import { createVolumeScan } from "./records/volume/volume-scan.ts";
import { measureSweep } from "./sweep-metrics.ts";

export interface RepairParts extends CommandDeps {
  readonly scopeOf: ApiDeps["scopeOf"];
  readonly quotas: QuotaRecords;
  readonly accessGrants: AccessGrants;
  readonly store: Store;
  readonly damages: DamagedRecords;
  readonly nodes: Nodes & NodeDecisions;
  readonly agents: AgentGateway;
  readonly listings: BackendListings;
  readonly gate: StoreGate & VetGate;
  readonly words: ControllerWords | undefined;
  /** This controller, on the roster. */
  readonly self: { readonly id: string; readonly version: string };
  readonly sweepIntervalMs: number;
  /** Told of each record of the audit. */
  readonly noted: (id: string) => void;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Often enough that one that is missed takes no controller off the roster. */
const tellEveryMs = 300_000;

export const wireRepair = (parts: RepairParts) => {
  const { store, ids, clock, damages, gate, tracing, sweepIntervalMs } = parts;
  const audit = createAuditRecords({ store, ids, damages, noted: parts.noted });
  const orphans = createOrphanRecords(parts);
  const scan = createVolumeScan(store, damages);
  const snapshotFacts = {
    owner: (plugin: string, externalId: string) => snapshotOwner(parts, plugin, externalId),
    beingCut: (plugin: string) => beingCut(parts, plugin),
  };
  const pass = createTwoWayPass({ ...parts, orphans, scan });
  const commands = createRepairCommands({ ...parts, audit, orphans, scan, pass, snapshotFacts });
  const roster = createRosterRecords(parts);
  const upgrade = createUpgradeCommands({ ...parts, roster, audit, formats: readableFormats });
  const sweep = createSweep({ ...parts, pass, random: ids.random, intervalMs: sweepIntervalMs });
  measureSweep(parts.metrics, sweep, clock.now);
  const onRecord = (): Promise<never> =>
    every(tellEveryMs, () => roster.tell({ ...parts.self, formats: readableFormats }), {
      signal: parts.signal,
      clock,
      immediate: true,
      onError: (error) => parts.log.warn("this controller is not on the roster that an upgrade looks at", { error }),
    });
  return {
    services: {
      repair: createRepairService({ scopeOf: parts.scopeOf, gate, audit, clock, tracing, commands, upgrade }),
      grants: createGrantService({ tracing, access: createAccessCommands({ ...parts, audit }) }),
      quotas: createQuotaService({ scopeOf: parts.scopeOf, tracing, quotas: createQuotaCommands({ ...parts, audit }) }),
    },
    audit,
    orphans,
    sweep,
    onRecord,
  };
};
