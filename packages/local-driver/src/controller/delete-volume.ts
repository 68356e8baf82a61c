import { DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { placesOf, recordedUses, usesOf } from "./volume-uses.ts";

/** Mounts and loop devices are asked of the kernel, as a record may name what a restart of the machine took away. */
export function createDeleteVolume({
  host,
  settings,
}: Pick<ControllerParts, "host" | "settings">): VolumeOperations["deleteVolume"] {
  /** Attachments of a time when attaching was on: nobody could take them off any more. */
  const attachedTo = (volume: VolumeRecord): readonly string[] =>
    settings.attach ? volume.attachments.map(({ nodeId }) => nodeId) : [];

  return async (id, signal) => {
    const volume = host.state.volumes.get(id);
    if (volume === undefined) return;
    const nodes = attachedTo(volume);
    if (nodes.length > 0)
      throw new DriverError(
        "FAILED_PRECONDITION",
        `it is attached to node ${nodes.join(", ")}; call ControllerUnpublishVolume first`,
      );

    const uses = await usesOf(host, volume);
    const mounted = [...uses.mounts, ...uses.rawTargets, ...uses.rawReaders, ...uses.strangers];
    if (mounted.length > 0)
      throw new DriverError(
        "FAILED_PRECONDITION",
        `it is mounted at ${placesOf(mounted)}; call NodeUnpublishVolume and NodeUnstageVolume first, or unmount it there`,
      );
    const recorded = recordedUses(volume);
    const [loop] = uses.loops;
    if (loop !== undefined && recorded.length > 0)
      throw new DriverError(
        "FAILED_PRECONDITION",
        `${loop.device} has its image, for ${recorded.map(({ path }) => path).join(", ")}; call NodeUnpublishVolume and NodeUnstageVolume first`,
      );

    // Of a life that ended between taking the device and mounting it.
    const { image } = host.state.volumes.paths(id);
    for (const each of uses.loops) await host.loops.detach(each, image, signal);
    await host.state.volumes.remove(id);
  };
}
