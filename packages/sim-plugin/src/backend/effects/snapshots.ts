import type * as csi from "@holdfast/shared/gen/csi/v1/csi";
import { createGroupArguments, createSnapshotArguments } from "../arguments.ts";
import { RefusedError } from "../codes.ts";
import type { SimGroup, SimSnapshot, StringMap } from "../model.ts";
import type { EffectContext, Effects } from "./effect.ts";
import { placeFor, volumeOf } from "./volumes.ts";

const snapshotMessage = (snapshot: SimSnapshot): csi.Snapshot => ({
  sizeBytes: snapshot.size,
  snapshotId: snapshot.id,
  sourceVolumeId: snapshot.source,
  creationTime: snapshot.createdAt,
  readyToUse: snapshot.pollsLeft === 0,
  groupSnapshotId: snapshot.group ?? "",
  accessibleTopology: (snapshot.topology ?? []).map((segments) => ({ segments: { ...segments } })),
});

/** Each answer that shows a snapshot brings it one step nearer to ready. */
export const poll = (snapshot: SimSnapshot): csi.Snapshot => {
  const message = snapshotMessage(snapshot);
  if (snapshot.pollsLeft > 0) snapshot.pollsLeft -= 1;
  return message;
};

/** As asked for; else where the source is. */
const usableFrom = (request: csi.CreateSnapshotRequest, context: EffectContext): readonly StringMap[] => {
  if (!context.capabilities.has("plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS")) return [];
  const { accessibilityRequirements, sourceVolumeId } = request;
  return accessibilityRequirements === undefined
    ? volumeOf(context.state, sourceVolumeId).topology
    : placeFor(accessibilityRequirements, context);
};

const membersOf = (group: SimGroup, { state }: EffectContext): SimSnapshot[] =>
  group.snapshots.flatMap((id) => state.snapshots.get(id) ?? []);

const groupMessage = (group: SimGroup, context: EffectContext): csi.VolumeGroupSnapshot => {
  const snapshots = membersOf(group, context).map(poll);
  return {
    groupSnapshotId: group.id,
    snapshots,
    creationTime: group.createdAt,
    readyToUse: snapshots.every((one) => one.readyToUse),
  };
};

export const snapshotEffects: Effects<
  | "CreateSnapshot"
  | "DeleteSnapshot"
  | "GetSnapshot"
  | "CreateVolumeGroupSnapshot"
  | "DeleteVolumeGroupSnapshot"
  | "GetVolumeGroupSnapshot"
> = {
  CreateSnapshot: (request, context) => {
    const { state, settings } = context;
    const id = context.idOf("snap", request.name);
    const old = state.snapshots.get(id);
    if (old !== undefined) return { snapshot: poll(old) };
    const snapshot: SimSnapshot = {
      id,
      name: request.name,
      source: request.sourceVolumeId,
      size: volumeOf(state, request.sourceVolumeId).capacity,
      createdAt: context.now(),
      argumentsHash: createSnapshotArguments(request),
      pollsLeft: settings.snapshotPolls ?? 0,
      topology: usableFrom(request, context),
    };
    state.snapshots.set(id, snapshot);
    return { snapshot: poll(snapshot) };
  },

  DeleteSnapshot: ({ snapshotId }, { state }) => {
    state.snapshots.delete(snapshotId);
    return {};
  },

  GetSnapshot: ({ snapshotId }, { state }) => {
    const snapshot = state.snapshots.get(snapshotId);
    if (snapshot === undefined) throw new RefusedError("NOT_FOUND", `there is no snapshot ${snapshotId}`);
    return { snapshot: poll(snapshot) };
  },

  CreateVolumeGroupSnapshot: (request, context) => {
    const { state, settings } = context;
    const id = context.idOf("group", request.name);
    const old = state.groups.get(id);
    if (old !== undefined) return { groupSnapshot: groupMessage(old, context) };
    const createdAt = context.now();
    const members = request.sourceVolumeIds.map((source, index): SimSnapshot => {
      const name = `${request.name}/${index}`;
      return {
        id: context.idOf("snap", name),
        name,
        source,
        size: volumeOf(state, source).capacity,
        createdAt,
        argumentsHash: "",
        group: id,
        pollsLeft: settings.snapshotPolls ?? 0,
      };
    });
    for (const member of members) state.snapshots.set(member.id, member);
    const group: SimGroup = {
      id,
      name: request.name,
      snapshots: members.map((member) => member.id),
      createdAt,
      argumentsHash: createGroupArguments(request),
    };
    state.groups.set(id, group);
    return { groupSnapshot: groupMessage(group, context) };
  },

  DeleteVolumeGroupSnapshot: ({ groupSnapshotId }, context) => {
    const group = context.state.groups.get(groupSnapshotId);
    for (const id of group?.snapshots ?? []) context.state.snapshots.delete(id);
    context.state.groups.delete(groupSnapshotId);
    return {};
  },

  GetVolumeGroupSnapshot: ({ groupSnapshotId }, context) => {
    const group = context.state.groups.get(groupSnapshotId);
    if (group === undefined) throw new RefusedError("NOT_FOUND", `there is no group snapshot ${groupSnapshotId}`);
    return { groupSnapshot: groupMessage(group, context) };
  },
};
