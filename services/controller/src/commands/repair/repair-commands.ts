import type { AuditRecord } from "../../domain/audit.ts";
import type { AgentGateway, BackendListings } from "../../ports.ts";
import type { AuditFilter, AuditRecords } from "../../records/audit-records.ts";
import type { OrphanRecords } from "../../records/orphan-records.ts";
import type { VolumeScan } from "../../records/volume-scan.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Page, PageInput } from "../model.ts";
import { abandonClaimCommand } from "./abandon-claim.ts";
import { adoptVolumeCommand } from "./adopt-volume.ts";
import { assertDetachedCommand } from "./assert-detached.ts";
import { forgetVolumeCommand } from "./forget-volume.ts";
import { listAuditQuery } from "./list-audit.ts";
import { listStuckQuery, type Stuck, type StuckFilter } from "./list-stuck.ts";
import { type RemoveOrphan, removeOrphanCommand } from "./remove-orphan.ts";
import type { RemoveSnapshotDeps } from "./remove-snapshot.ts";
import type {
  AbandonClaimInput,
  AdoptVolumeInput,
  AssertDetachedInput,
  ForgetVolumeInput,
  Verb,
} from "./repair-model.ts";
import { type ScanOrphans, type ScanOrphansDeps, scanOrphansCommand } from "./scan-orphans.ts";

/** What Holdfast does not decide alone, and what was decided so. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface RepairCommands {
  readonly abandonClaim: Verb<AbandonClaimInput>;
  readonly assertDetached: Verb<AssertDetachedInput>;
  readonly forgetVolume: Verb<ForgetVolumeInput>;
  readonly adoptVolume: Verb<AdoptVolumeInput>;
  readonly removeOrphan: RemoveOrphan;
  readonly scanOrphans: ScanOrphans;
  readonly listAudit: (
    filter: AuditFilter & { readonly auditId: string },
    page: PageInput,
  ) => Promise<Page<AuditRecord>>;
  readonly listStuck: (filter: StuckFilter, page: PageInput) => Promise<Page<Stuck>>;
}

export interface RepairDeps extends CommandDeps {
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly audit: AuditRecords;
  readonly orphans: OrphanRecords;
  readonly scan: VolumeScan;
  readonly listings: BackendListings;
  readonly pass: ScanOrphansDeps["pass"];
  readonly snapshotFacts: RemoveSnapshotDeps["snapshotFacts"];
  readonly signal: AbortSignal;
}

export const createRepairCommands = (deps: RepairDeps): RepairCommands => {
  const removeOrphan = removeOrphanCommand(deps);
  return {
    abandonClaim: abandonClaimCommand(deps),
    assertDetached: assertDetachedCommand(deps),
    forgetVolume: forgetVolumeCommand(deps),
    adoptVolume: adoptVolumeCommand(deps),
    removeOrphan,
    scanOrphans: scanOrphansCommand({ ...deps, removeOrphan }),
    listAudit: listAuditQuery(deps),
    listStuck: listStuckQuery(deps),
  };
};
