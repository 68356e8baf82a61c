import type { VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { createGroupArguments, createSnapshotArguments, createVolumeArguments } from "../arguments.ts";
import { withoutTokens } from "../call.ts";
import { sameValue } from "../ids.ts";
import type { StringMap } from "../model.ts";
import { modeOf } from "./access-modes.ts";
import { type Rule, rule, type World } from "./rule.ts";

const otherContext = (
  world: World,
  { volumeId, volumeContext }: { volumeId: string; volumeContext: StringMap },
): string | undefined => {
  const volume = world.state.volumes.get(volumeId);
  // Tokens are added to it on the way; whether they may be is the token rules' business.
  return volume === undefined || sameValue(volume.context, withoutTokens(volumeContext))
    ? undefined
    : `volume_context of ${volumeId} is not what CreateVolume answered`;
};

/** Whether the volume was made to be used so; a filesystem named at creation must be the one asked for. */
const serves = (has: VolumeCapability, asked: VolumeCapability): boolean =>
  modeOf(has) === modeOf(asked) &&
  (has.block === undefined) === (asked.block === undefined) &&
  (!has.mount?.fsType || has.mount.fsType === asked.mount?.fsType);

const beyond = (
  world: World,
  { volumeId, volumeCapability }: { volumeId: string; volumeCapability: VolumeCapability | undefined },
): string | undefined => {
  const has = world.state.volumes.get(volumeId)?.capabilities ?? [];
  if (volumeCapability === undefined || has.length === 0) return undefined;
  const fits = world.comparesCapabilities ? sameValue : serves;
  if (has.some((one) => fits(one, volumeCapability))) return undefined;
  return world.comparesCapabilities
    ? `${volumeId} was made for ${JSON.stringify(has)}, and not for ${JSON.stringify(volumeCapability)}`
    : `${volumeId} was not made for ${volumeCapability.block === undefined ? "mount" : "block"} ${modeOf(volumeCapability)}`;
};

/** What was said once must be said again in the same words. */
export const replayRules: readonly Rule[] = [
  rule(
    "create-replay-differs",
    "ALREADY_EXISTS",
    "The name makes CreateVolume idempotent: a repeat has the same arguments.",
    {
      CreateVolume: (request, world) => {
        const old = world.state.volumes.get(world.idOf("vol", request.name));
        return old === undefined || old.argumentsHash === createVolumeArguments(request)
          ? undefined
          : `a volume named ${request.name} exists and was made with other arguments`;
      },
    },
  ),
  rule(
    "snapshot-replay-differs",
    "ALREADY_EXISTS",
    "The name makes CreateSnapshot idempotent: a repeat has the same source.",
    {
      CreateSnapshot: (request, world) => {
        const old = world.state.snapshots.get(world.idOf("snap", request.name));
        return old === undefined || old.argumentsHash === createSnapshotArguments(request)
          ? undefined
          : `a snapshot named ${request.name} exists and was made with other arguments`;
      },
    },
  ),
  rule(
    "group-replay-differs",
    "ALREADY_EXISTS",
    "The name makes CreateVolumeGroupSnapshot idempotent: a repeat has the same sources.",
    {
      CreateVolumeGroupSnapshot: (request, world) => {
        const old = world.state.groups.get(world.idOf("group", request.name));
        return old === undefined || old.argumentsHash === createGroupArguments(request)
          ? undefined
          : `a group snapshot named ${request.name} exists and was made with other arguments`;
      },
    },
  ),
  rule(
    "group-members-differ",
    "INVALID_ARGUMENT",
    "Delete and Get of a group snapshot carry exactly the snapshot ids that its creation answered.",
    {
      DeleteVolumeGroupSnapshot: (request, world) => otherMembers(world, request),
      GetVolumeGroupSnapshot: (request, world) => otherMembers(world, request),
    },
  ),
  rule(
    "group-member-deleted-alone",
    "INVALID_ARGUMENT",
    "A snapshot of a group is deleted with its group, never alone.",
    {
      DeleteSnapshot: ({ snapshotId }, world) => {
        const group = world.state.snapshots.get(snapshotId)?.group;
        return group === undefined ? undefined : `snapshot ${snapshotId} belongs to the group snapshot ${group}`;
      },
    },
  ),
  rule(
    "volume-context-changed",
    "INVALID_ARGUMENT",
    "volume_context is passed on exactly as CreateVolume answered it.",
    {
      ControllerPublishVolume: (request, world) => otherContext(world, request),
      NodeStageVolume: (request, world) => otherContext(world, request),
      NodePublishVolume: (request, world) => otherContext(world, request),
    },
  ),
  rule("capability-beyond-volume", "FAILED_PRECONDITION", "A volume is used with a capability it was made with.", {
    ControllerPublishVolume: (request, world) => beyond(world, request),
    ControllerExpandVolume: (request, world) => beyond(world, request),
    NodeStageVolume: (request, world) => beyond(world, request),
    NodePublishVolume: (request, world) => beyond(world, request),
    NodeExpandVolume: (request, world) => beyond(world, request),
  }),
];

const otherMembers = (
  world: World,
  request: { groupSnapshotId: string; snapshotIds: readonly string[] },
): string | undefined => {
  const group = world.state.groups.get(request.groupSnapshotId);
  return group === undefined || sameValue([...group.snapshots].sort(), [...request.snapshotIds].sort())
    ? undefined
    : `snapshot_ids are not those of the group snapshot ${request.groupSnapshotId}`;
};
