import type * as csi from "@holdfast/shared/gen/csi/v1/csi";
import { createVolumeArguments } from "../arguments.ts";
import { RefusedError } from "../codes.ts";
import type { ContentSource, SimState, SimVolume, StringMap } from "../model.ts";
import { sizesOf } from "../settings.ts";
import type { EffectContext, Effects } from "./effect.ts";

export const volumeMessage = (volume: SimVolume): csi.Volume => ({
  capacityBytes: volume.capacity,
  volumeId: volume.id,
  volumeContext: { ...volume.context },
  contentSource:
    volume.source === undefined
      ? undefined
      : volume.source.kind === "snapshot"
        ? { snapshot: { snapshotId: volume.source.id }, volume: undefined }
        : { snapshot: undefined, volume: { volumeId: volume.source.id } },
  accessibleTopology: volume.topology.map((segments) => ({ segments: { ...segments } })),
});

/** The volume, or NOT_FOUND: the rules looked before, but it may have gone while the call took its time. */
export const volumeOf = (state: SimState, id: string): SimVolume => {
  const volume = state.volumes.get(id);
  if (volume === undefined) throw new RefusedError("NOT_FOUND", `there is no volume ${id}`);
  return volume;
};

const usedBytes = (state: SimState): bigint =>
  [...state.volumes.values()].reduce((sum, { capacity }) => sum + capacity, 0n);

export const checkMutable = (parameters: StringMap, { settings }: EffectContext): void => {
  const stray = Object.keys(parameters).find(
    (name) => settings.mutableKeys !== undefined && !settings.mutableKeys.includes(name),
  );
  if (stray !== undefined) throw new RefusedError("INVALID_ARGUMENT", `mutable parameter ${stray} is not known`);
};

const sourceOf = ({ volumeContentSource: source }: csi.CreateVolumeRequest): ContentSource | undefined => {
  if (source?.snapshot !== undefined) return { kind: "snapshot", id: source.snapshot.snapshotId };
  return source?.volume === undefined ? undefined : { kind: "volume", id: source.volume.volumeId };
};

const sourceSize = (source: ContentSource | undefined, { state }: EffectContext): bigint => {
  if (source === undefined) return 0n;
  if (source.kind === "volume") return volumeOf(state, source.id).capacity;
  const snapshot = state.snapshots.get(source.id);
  if (snapshot === undefined) throw new RefusedError("NOT_FOUND", `there is no snapshot ${source.id}`);
  if (snapshot.pollsLeft > 0) throw new RefusedError("UNAVAILABLE", `snapshot ${source.id} is not ready to use`);
  return snapshot.size;
};

const capacityFor = (range: csi.CapacityRange | undefined, least: bigint, context: EffectContext): bigint => {
  const { pool, max, min } = sizesOf(context.settings);
  const wanted = [range?.requiredBytes ?? 0n, least, min].reduce((a, b) => (a > b ? a : b));
  // No bound at all leaves the size to the plugin.
  const size = range === undefined && least === 0n ? 1024n ** 3n : wanted;
  const limit = range?.limitBytes ?? 0n;
  if (size > max) throw new RefusedError("OUT_OF_RANGE", `${size} bytes are more than the ${max} a volume may have`);
  if (limit > 0n && size > limit)
    throw new RefusedError("OUT_OF_RANGE", `no size between ${size} and limit_bytes ${limit}`);
  if (usedBytes(context.state) + size > pool) throw new RefusedError("RESOURCE_EXHAUSTED", "the pool is full");
  return size;
};

const within = (segments: StringMap, place: StringMap): boolean =>
  Object.entries(segments).every(([name, value]) => place[name] === value);

/** Where the volume will be: the first preferred, else the first requisite place that some node is in. */
export const placeFor = (requirement: csi.TopologyRequirement | undefined, context: EffectContext): StringMap[] => {
  if (!context.capabilities.has("plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS")) return [];
  const places = [...context.state.nodes.values()].flatMap((node) =>
    node.topology === undefined ? [] : [node.topology],
  );
  if (requirement === undefined) return places.length === 0 ? [] : [places[0] as StringMap];
  const wanted = [...requirement.preferred, ...requirement.requisite].map((one) => one.segments);
  const found = wanted.find((segments) => places.length === 0 || places.some((place) => within(segments, place)));
  if (found === undefined)
    throw new RefusedError("RESOURCE_EXHAUSTED", "no storage in any of the requisite topologies");
  return [found];
};

/** A volume from a snapshot that not every place can use, wherever the caller leaves it to us. */
const placesOfSource = (source: ContentSource | undefined, state: SimState): csi.TopologyRequirement | undefined => {
  const topology = source?.kind === "snapshot" ? (state.snapshots.get(source.id)?.topology ?? []) : [];
  if (topology.length === 0) return undefined;
  return { requisite: topology.map((segments) => ({ segments: { ...segments } })), preferred: [] };
};

export const volumeEffects: Effects<
  | "CreateVolume"
  | "DeleteVolume"
  | "ControllerExpandVolume"
  | "ControllerModifyVolume"
  | "GetCapacity"
  | "ValidateVolumeCapabilities"
> = {
  CreateVolume: (request, context) => {
    const { state } = context;
    const id = context.idOf("vol", request.name);
    const old = state.volumes.get(id);
    if (old !== undefined) return { volume: volumeMessage(old) };
    checkMutable(request.mutableParameters, context);
    if (context.settings.needsPreferred === true && (request.accessibilityRequirements?.preferred.length ?? 0) === 0)
      throw new RefusedError("INVALID_ARGUMENT", "no zone in the request, cannot choose one");
    const source = sourceOf(request);
    const volume: SimVolume = {
      id,
      name: request.name,
      capacity: capacityFor(request.capacityRange, sourceSize(source, context), context),
      context: context.settings.volumeContext ?? { "sim/pool": "default", "sim/name": request.name.slice(0, 64) },
      capabilities: request.volumeCapabilities,
      parameters: request.parameters,
      mutableParameters: request.mutableParameters,
      ...(source === undefined ? {} : { source }),
      topology: placeFor(request.accessibilityRequirements ?? placesOfSource(source, state), context),
      argumentsHash: createVolumeArguments(request),
      attachCount: 0,
    };
    state.volumes.set(id, volume);
    return { volume: volumeMessage(volume) };
  },

  DeleteVolume: ({ volumeId }, { state }) => {
    state.volumes.delete(volumeId);
    return {};
  },

  ControllerExpandVolume: ({ volumeId, capacityRange }, context) => {
    const volume = volumeOf(context.state, volumeId);
    const nodeExpansionRequired =
      (context.settings.nodeExpansionRequired ?? true) && context.capabilities.has("node.EXPAND_VOLUME");
    if (volume.capacity < (capacityRange?.requiredBytes ?? 0n)) {
      volume.capacity = capacityFor(capacityRange, 0n, context);
    } else if (
      capacityRange !== undefined &&
      capacityRange.limitBytes > 0n &&
      volume.capacity > capacityRange.limitBytes
    ) {
      throw new RefusedError("OUT_OF_RANGE", `${volumeId} has ${volume.capacity} bytes, and volumes do not shrink`);
    }
    return { capacityBytes: volume.capacity, nodeExpansionRequired };
  },

  ControllerModifyVolume: ({ volumeId, mutableParameters }, context) => {
    const volume = volumeOf(context.state, volumeId);
    checkMutable(mutableParameters, context);
    volume.mutableParameters = { ...volume.mutableParameters, ...mutableParameters };
    return {};
  },

  GetCapacity: (_, { state, settings }) => {
    const { pool, max, min } = sizesOf(settings);
    return { availableCapacity: pool - usedBytes(state), maximumVolumeSize: max, minimumVolumeSize: min };
  },

  ValidateVolumeCapabilities: (request, { state }) => {
    const volume = volumeOf(state, request.volumeId);
    const unserved = request.volumeCapabilities.find(
      (asked) =>
        volume.capabilities.length > 0 &&
        !volume.capabilities.some(
          (has) =>
            has.accessMode?.mode === asked.accessMode?.mode &&
            (has.block === undefined) === (asked.block === undefined),
        ),
    );
    if (unserved !== undefined)
      return { confirmed: undefined, message: "the volume was not made with one of these capabilities" };
    const { volumeContext, volumeCapabilities, parameters, mutableParameters } = request;
    return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: "" };
  },
};
