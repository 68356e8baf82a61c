import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";

/** Whoever expects another revision than there is has decided from what is no longer true. */
export const staleAgainst = (
  expected: number | undefined,
  found: { readonly volume: VolumeRecord; readonly rev: number } | undefined,
): HoldfastError | undefined =>
  expected === undefined || found === undefined || found.rev === expected
    ? undefined
    : new HoldfastError({
        kind: "aborted",
        reason: "REVISION_CONFLICT",
        message: `volume ${volumeKey(found.volume)} has revision ${found.rev} and not ${expected}: somebody changed it; read it and decide again`,
        metadata: { namespace: found.volume.namespace, volume: found.volume.id, revision: String(found.rev) },
      });
