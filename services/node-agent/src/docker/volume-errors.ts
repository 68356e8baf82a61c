/** What Docker's user alone is told when a volume cannot be had. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

export const volumeNotFound = (namespace: string, id: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "VOLUME_NOT_FOUND",
    message: `there is no volume ${namespace}/${id}`,
    metadata: { namespace, volume: id },
  });

export const mountedHere = (namespace: string, id: string, ids: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_IN_USE",
    message: `volume ${namespace}/${id} is mounted on this host for ${ids} of Docker's mounts; remove their containers first`,
    metadata: { namespace, volume: id },
  });

export const soleWriter = (namespace: string, id: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLAIM_CONFLICT",
    message: `volume ${namespace}/${id} has mode SINGLE_NODE_SINGLE_WRITER and is mounted for another container; stop that first, or make the volume with mode=single-node-multi-writer`,
    metadata: { namespace, volume: id },
  });
