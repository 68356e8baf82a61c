import type { AuditRecord } from "../../domain/audit.ts";
import type { AgentGateway } from "../../ports.ts";
import type { AuditFilter, AuditRecords } from "../../records/audit-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Page, PageInput } from "../model.ts";
import { abandonClaimCommand } from "./abandon-claim.ts";
import { assertDetachedCommand } from "./assert-detached.ts";
import { forgetVolumeCommand } from "./forget-volume.ts";
import { listAuditQuery } from "./list-audit.ts";
import { listStuckQuery, type Stuck, type StuckFilter } from "./list-stuck.ts";
import type { AbandonClaimInput, AssertDetachedInput, ForgetVolumeInput, Verb } from "./repair-model.ts";

/** What Holdfast does not decide alone, and what was decided so. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface RepairCommands {
  readonly abandonClaim: Verb<AbandonClaimInput>;
  readonly assertDetached: Verb<AssertDetachedInput>;
  readonly forgetVolume: Verb<ForgetVolumeInput>;
  readonly listAudit: (
    filter: AuditFilter & { readonly auditId: string },
    page: PageInput,
  ) => Promise<Page<AuditRecord>>;
  readonly listStuck: (filter: StuckFilter, page: PageInput) => Promise<Page<Stuck>>;
}

export interface RepairDeps extends CommandDeps {
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly audit: AuditRecords;
  readonly signal: AbortSignal;
}

export const createRepairCommands = (deps: RepairDeps): RepairCommands => ({
  abandonClaim: abandonClaimCommand(deps),
  assertDetached: assertDetachedCommand(deps),
  forgetVolume: forgetVolumeCommand(deps),
  listAudit: listAuditQuery(deps),
  listStuck: listStuckQuery(deps),
});
