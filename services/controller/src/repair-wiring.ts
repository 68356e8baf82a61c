/** The part of the controller that finds what is nobody's and does what a person decides. */
import type { Tracing } from "@holdfast/shared/tracing";
import { createRepairService } from "./api/repair-service.ts";
import type { VetGate } from "./api/repair-vet.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createRepairCommands } from "./commands/repair/repair-commands.ts";
import type { AgentGateway, Store, StoreGate } from "./ports.ts";
import { createAuditRecords } from "./records/audit-records.ts";

export interface RepairParts extends CommandDeps {
  readonly store: Store;
  readonly agents: AgentGateway;
  readonly gate: StoreGate & VetGate;
  readonly tracing: Tracing;
  readonly signal: AbortSignal;
}

export const wireRepair = (parts: RepairParts) => {
  const { store, ids, clock, gate, tracing } = parts;
  const audit = createAuditRecords({ store, ids });
  return createRepairService({ gate, audit, clock, tracing, commands: createRepairCommands({ ...parts, audit }) });
};
