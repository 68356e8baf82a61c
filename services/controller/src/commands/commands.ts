import { createClaimQueries } from "./claim-queries.ts";
import type { CommandDeps } from "./command-deps.ts";
import { createClaimsCommand } from "./create-claims.ts";
import { createVolumeCommand } from "./create-volume.ts";
import { deleteVolumeCommand } from "./delete-volume.ts";
import { deregisterVolumeCommand } from "./deregister-volume.ts";
import { expandVolumeCommand } from "./expand-volume.ts";
import { explainVolumeQuery } from "./explain.ts";
import { getCapacityQuery } from "./get-capacity.ts";
import { handOverCommand } from "./hand-over.ts";
import type { Commands } from "./model.ts";
import { modifyVolumeCommand } from "./modify-volume.ts";
import { createWorkloadReconciliation } from "./reconcile-workloads.ts";
import { registerVolumeCommand } from "./register-volume.ts";
import { releaseClaimsCommand } from "./release-claims.ts";
import { updateVolumeCommand } from "./update-volume.ts";
import { createVolumeQueries } from "./volume-queries.ts";

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
