import { createClaimQueries } from "./claim/claim-queries.ts";
import { createClaimsCommand } from "./claim/create-claims.ts";
import { handOverCommand } from "./claim/hand-over.ts";
import { createWorkloadReconciliation } from "./claim/reconcile-workloads.ts";
import { releaseClaimsCommand } from "./claim/release-claims.ts";
import type { CommandDeps } from "./command-deps.ts";
import { explainVolumeQuery } from "./explain/explain.ts";
import type { Commands } from "./model.ts";
import { getCapacityQuery } from "./plugin/get-capacity.ts";
import { createVolumeCommand } from "./volume/create-volume.ts";
import { deleteVolumeCommand } from "./volume/delete-volume.ts";
import { deregisterVolumeCommand } from "./volume/deregister-volume.ts";
import { expandVolumeCommand } from "./volume/expand-volume.ts";
import { modifyVolumeCommand } from "./volume/modify-volume.ts";
import { registerVolumeCommand } from "./volume/register-volume.ts";
import { updateVolumeCommand } from "./volume/update-volume.ts";
import { createVolumeQueries } from "./volume/volume-queries.ts";

/** Everything that callers can ask for. Commands write what is wanted, durably; the reconciler alone acts on it. */
export const createCommands = (deps: CommandDeps): Commands => ({
  createVolume: createVolumeCommand(deps),
  registerVolume: registerVolumeCommand(deps),
  updateVolume: updateVolumeCommand(deps),
  deregisterVolume: deregisterVolumeCommand(deps),
  deleteVolume: deleteVolumeCommand(deps),
  expandVolume: expandVolumeCommand(deps),
  modifyVolume: modifyVolumeCommand(deps),
  getCapacity: getCapacityQuery(deps),
  explainVolume: explainVolumeQuery(deps),
  createClaims: createClaimsCommand(deps),
  releaseClaims: releaseClaimsCommand(deps),
  handOver: handOverCommand(deps),
  ...createWorkloadReconciliation(deps),
  ...createVolumeQueries(deps),
  ...createClaimQueries(deps),
});
