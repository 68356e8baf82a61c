/** What the user of a program of this host is told when a volume cannot be had. */
import { fenceCommand } from "@holdfast/model/operator-command";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { FoundVolume, VolumeHolder } from "./host-volumes.ts";

export const notMade = (
  namespace: string,
  { id, state, trouble, plugin }: FoundVolume,
  takesAway: string,
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_NOT_AVAILABLE",
    message: `volume ${namespace}/${id} of plugin ${plugin} is ${state}${trouble === "" ? "" : `: ${trouble}`}; ${
      state === "FAILED" ? `${takesAway} takes it away` : "repeat"
    }`,
    metadata: { namespace, volume: id, state },
  });

export const noFileSystem = (namespace: string, id: string, program: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `volume ${namespace}/${id} is a block device, which ${program} does not mount; use a volume with a file system`,
    metadata: { namespace, volume: id },
  });

export const stillMounted = (namespace: string, id: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_IN_USE",
    message: `volume ${namespace}/${id} is not unmounted yet${why === "" ? "" : `: ${why}`}; the agent goes on, and tells nobody else the volume is free before`,
    metadata: { namespace, volume: id },
  });

const holderWords = (holders: readonly VolumeHolder[]): string =>
  holders
    .map(({ workload, node, nodeLost }) =>
      nodeLost === ""
        ? `workload ${workload} on node ${node}; release that first`
        : `workload ${workload} on node ${node}, and ${nodeLost}; if that host is off for certain: ${fenceCommand(node)}`,
    )
    .join("; and by ");

export const heldByOthers = (namespace: string, id: string, holders: readonly VolumeHolder[]): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_IN_USE",
    message: `volume ${namespace}/${id} is not deleted: it is held by ${holderWords(holders)}`,
    metadata: holderFields(namespace, id, holders),
  });

const holderFields = (namespace: string, id: string, [first]: readonly VolumeHolder[]) => ({
  namespace,
  volume: id,
  holder_workload: first?.workload ?? "",
  holder_node: first?.node ?? "",
});

/** The time that the program waits is over. */
export const stillHeld = (
  namespace: string,
  id: string,
  holders: readonly VolumeHolder[],
  waitedMs: number,
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "QUEUE_TIMEOUT",
    message: `volume ${namespace}/${id} was waited for ${Math.round(waitedMs / 1000)} s and is held by ${holderWords(holders)}`,
    metadata: holderFields(namespace, id, holders),
  });
