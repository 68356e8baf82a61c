import type { AgentGateway } from "../../agent-ports.ts";
import type { AuditRecord } from "../../domain/repair/audit.ts";
import type { BackendListings, NodeDecisions, Nodes } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import type { DamagedRecords } from "../../records/damaged-records.ts";
import type { OrphanRecords } from "../../records/orphan-records.ts";
import type { VolumeScan } from "../../records/volume/volume-scan.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Page, PageInput } from "../model.ts";
import { abandonClaimCommand } from "./abandon-claim.ts";
import { admitNodeCommand } from "./admit-node.ts";
import { adoptVolumeCommand } from "./adopt-volume.ts";
import { assertDetachedCommand } from "./assert-detached.ts";
import { clearBarCommand } from "./clear-bar.ts";
import { type ControllerWords, forgetControllerCommand } from "./forget-controller.ts";
import { forgetVolumeCommand } from "./forget-volume.ts";
import { type AuditQuestion, listAuditQuery } from "./list-audit.ts";
import { listStuckQuery, type Stuck, type StuckFilter } from "./list-stuck.ts";
import { type RemoveOrphan, removeOrphanCommand } from "./remove-orphan.ts";
import type { RemoveSnapshotDeps } from "./remove-snapshot.ts";
import type {
  AbandonClaimInput,
  AdmitNodeInput,
  AdoptVolumeInput,
  AssertDetachedInput,
  ClearBarInput,
  ForgetControllerInput,
  ForgetVolumeInput,
  TakeOverInput,
  Verb,
} from "./repair-model.ts";
import { type ScanOrphans, type ScanOrphansDeps, scanOrphansCommand } from "./scan-orphans.ts";
import { takeOverCommand } from "./take-over.ts";

/** What Holdfast does not decide alone, and what was decided so. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface RepairCommands {
  readonly abandonClaim: Verb<AbandonClaimInput>;
  readonly admitNode: Verb<AdmitNodeInput>;
  readonly assertDetached: Verb<AssertDetachedInput>;
  readonly forgetController: Verb<ForgetControllerInput>;
  readonly forgetVolume: Verb<ForgetVolumeInput>;
  readonly takeOver: Verb<TakeOverInput>;
  readonly clearBar: Verb<ClearBarInput>;
  readonly adoptVolume: Verb<AdoptVolumeInput>;
  readonly removeOrphan: RemoveOrphan;
  readonly scanOrphans: ScanOrphans;
  readonly listAudit: (filter: AuditQuestion, page: PageInput) => Promise<Page<AuditRecord>>;
  readonly listStuck: (filter: StuckFilter, page: PageInput) => Promise<Page<Stuck>>;
}

export interface RepairDeps extends CommandDeps {
  readonly nodes: Nodes & NodeDecisions;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly audit: AuditRecords;
  /** undefined: no other controller can use the store. */
  readonly words: ControllerWords | undefined;
  readonly damages?: Pick<DamagedRecords, "list">;
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
    admitNode: admitNodeCommand(deps),
    assertDetached: assertDetachedCommand(deps),
    forgetController: forgetControllerCommand(deps),
    forgetVolume: forgetVolumeCommand(deps),
    takeOver: takeOverCommand(deps),
    clearBar: clearBarCommand(deps),
    adoptVolume: adoptVolumeCommand(deps),
    removeOrphan,
    scanOrphans: scanOrphansCommand({ ...deps, removeOrphan }),
    listAudit: listAuditQuery(deps),
    listStuck: listStuckQuery(deps),
  };
};
