/**
 * The volumes that claims bring. The id of such a volume is made of the key of its claim: whatever was lost in between, the same request
 * finds the volume of the first one, and no second is made (CV1). Nothing is asked of its plugin before the claim is stored, as it is made for the
 * node of that claim.
 */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { isLeaving } from "../../domain/claim/ephemeral.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Caller, CreateClaimsInput, CreateVolumeInput } from "../model.ts";
import { createVolumeCommand } from "../volume/create-volume.ts";
import { deleteVolumeCommand } from "../volume/delete-volume.ts";

export const volumeLeavingWithClaim = (volume: VolumeRecord): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "VOLUME_BUSY",
    message: `volume ${volumeKey(volume)} of a former life of this claim is on its way out with its data; repeat the request once it is gone`,
    metadata: { namespace: volume.namespace, volume: volume.id, operation: "delete", node: "" },
  });

/** As a volume that can be claimed: the one that stands, or a new one. */
const ensure = async (deps: CommandDeps, wanted: CreateVolumeInput, caller: Caller): Promise<void> => {
  const standing = (await deps.records.get(wanted))?.volume;
  if (standing !== undefined && isLeaving(standing)) throw volumeLeavingWithClaim(standing);
  await createVolumeCommand(deps)(wanted, caller);
};

/** No claim was made: what was only to be theirs goes at once. What is left goes by itself later (EV2). */
const takeBack = async (deps: CommandDeps, refs: readonly VolumeRef[], caller: Caller): Promise<void> => {
  for (const { namespace, id } of refs) {
    const found = await deps.records.get({ namespace, id }).catch(() => undefined);
    if (found?.volume.ephemeral === undefined || found.volume.ephemeral.claimed === true) continue;
    const { uid } = found.volume;
    await deleteVolumeWith(deps, { namespace, id, uid, requestId: "" }, caller);
  }
};

/** Somebody may have claimed it meanwhile, or the store may be away. */
const deleteVolumeWith = async (
  deps: CommandDeps,
  input: Parameters<ReturnType<typeof deleteVolumeCommand>>[0],
  caller: Caller,
): Promise<void> => {
  try {
    await deleteVolumeCommand(deps)(input, { ...caller, why: `${caller.why}: it made no claim` });
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
  }
};

const madeNothing = (error: unknown): boolean =>
  isHoldfastError(error) && !["unavailable", "deadline", "cancelled", "unknown", "internal"].includes(error.kind);

/** Runs `claim` over the volumes of the templates. */
export const withClaimVolumes = async <T>(
  deps: CommandDeps,
  { claims }: Pick<CreateClaimsInput, "claims">,
  caller: Caller,
  claim: () => Promise<T>,
): Promise<T> => {
  const wanted = claims.flatMap(({ template }) => template ?? []);
  if (wanted.length === 0) return await claim();
  try {
    for (const volume of wanted) await ensure(deps, volume, caller);
    return await claim();
  } catch (error) {
    if (madeNothing(error)) await takeBack(deps, wanted, caller);
    throw error;
  }
};
