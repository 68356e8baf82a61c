import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type Change, noChange } from "../../domain/change.ts";
import { type DeregisterObstacle, deregistered, deregisterObstacle } from "../../domain/volume/deregistered.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { volumePins } from "../../records/volume-pins.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeInUse, volumeNotFound } from "../errors.ts";
import type { Commands } from "../model.ts";
import { volumePinned } from "../pins.ts";
import { validateDeleteVolume } from "./validate-volume.ts";

const obstacleError = (volume: VolumeRecord, obstacle: DeregisterObstacle): HoldfastError => {
  if (obstacle.kind === "in-use") {
    const claim = Object.values(volume.claims)[0];
    const node = claim?.node ?? Object.keys(volume.attachments)[0] ?? volume.bars[0]?.node ?? "";
    return volumeInUse(volume, obstacle.users, { workload: claim?.workload ?? "", node });
  }
  return new HoldfastError({
    kind: "aborted",
    reason: "VOLUME_BUSY",
    message: `volume ${volumeKey(volume)} of plugin ${volume.plugin} cannot be forgotten now: ${obstacle.why}`,
    metadata: {
      namespace: volume.namespace,
      volume: volume.id,
      operation: volume.intent?.op ?? "",
      node: volume.intent?.node ?? "",
    },
  });
};

/** Forgets a volume that nobody uses. The storage is not touched; what stays there is told, also to a repeat. */
export const deregisterVolumeCommand =
  (deps: CommandDeps): Commands["deregisterVolume"] =>
  async (input, caller) => {
    const { records } = deps;
    validateDeleteVolume(input);
    let otherLife = false;
    let left: VolumeRecord | undefined;
    const forget = (volume: VolumeRecord): Change => {
      otherLife = input.uid !== "" && input.uid !== volume.uid;
      if (otherLife) return noChange(volume);
      const obstacle = deregisterObstacle(volume);
      if (obstacle !== undefined) throw obstacleError(volume, obstacle);
      left = volume;
      return deregistered(volume);
    };
    const result = await records.change(input, forget, { by: caller, alone: volumePins });
    if (result.crowded) throw await volumePinned(deps, input);
    if (result.changed && left !== undefined) return { plugin: left.plugin, externalId: left.externalId };
    // Gone before: asked again, or never known.
    const tombstone = await records.deleted(input);
    if (tombstone === undefined || (input.uid !== "" && input.uid !== tombstone.uid)) throw volumeNotFound(input);
    return { plugin: tombstone.plugin, externalId: tombstone.kept === true ? tombstone.externalId : "" };
  };
