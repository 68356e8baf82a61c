/** Domain ↔ CSI. Generated types of CSI go no further than this file and its callers in this folder. */

import type { RequestInput, ResponseOf } from "@holdfast/csi/messages";
import { capabilityIn, type Unsayable } from "@holdfast/csi/volume-capability";
import type { Tri } from "@holdfast/model/tri";
import { wholeNumber } from "@holdfast/model/whole-number";
import type { VolumeCapability as CsiCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { wantedPlaces } from "../domain/volume/source-topology.ts";
import type {
  Attachment,
  ContentSource,
  Segments,
  VolumeCapability,
  VolumeRecord,
  VolumeTopology,
} from "../domain/volume/volume.ts";
import type { CreatedVolume } from "../domain/volume/volume-change.ts";

type Secrets = Readonly<Record<string, string>>;

const copy = (map: Readonly<Record<string, string>>): Record<string, string> => ({ ...map });

/** A copy needs the room of what it is made from, whether or not somebody said so. */
export const leastBytes = ({ capacity, source }: VolumeRecord): number =>
  Math.max(capacity.required, source?.sizeBytes ?? 0);

const capacityRange = (volume: VolumeRecord): RequestInput<"CreateVolume">["capacityRange"] => {
  const { limit } = volume.capacity;
  const required = leastBytes(volume);
  // "At least one of the field MUST be specified": without a bound the field itself is left out.
  return required === 0 && limit === 0 ? undefined : { requiredBytes: BigInt(required), limitBytes: BigInt(limit) };
};

const topologyRequirement = ({
  required,
  preferred,
}: Pick<VolumeTopology, "required" | "preferred">): RequestInput<"CreateVolume">["accessibilityRequirements"] =>
  required.length === 0 && preferred.length === 0
    ? undefined
    : {
        requisite: required.map((segments) => ({ segments: copy(segments) })),
        preferred: preferred.map((segments) => ({ segments: copy(segments) })),
      };

/** A volume that was made for a node has to be where that node is, and nowhere else. */
const placeOf = (volume: VolumeRecord): Pick<VolumeTopology, "required" | "preferred"> => {
  const place = volume.binding?.place ?? {};
  return Object.keys(place).length === 0 ? wantedPlaces(volume) : { required: [place], preferred: [place] };
};

const contentSource = (source: ContentSource): RequestInput<"CreateVolume">["volumeContentSource"] => {
  switch (source.kind) {
    case "none":
      return undefined;
    case "snapshot":
      return { snapshot: { snapshotId: source.id } };
    case "volume":
      return { volume: { volumeId: source.id } };
  }
};

/** All of them in the plugin's words, or the first that cannot be said to it. */
export const capabilitiesIn = (
  capabilities: readonly VolumeCapability[],
  fineModes: Tri,
): readonly CsiCapability[] | Unsayable => {
  const said: CsiCapability[] = [];
  for (const capability of capabilities) {
    const one = capabilityIn(capability, fineModes);
    if ("because" in one) return one;
    said.push(one);
  }
  return said;
};

/**
 * Fields that the plugin does not offer are sent all the same when somebody asked for them: the gate of the connection then
 * refuses the call and names them. Left out in silence, the volume would not be what was asked for.
 */
export const createRequest = (
  volume: VolumeRecord,
  /** With the plugin's own id of it. */
  source: ContentSource,
  fineModes: Tri,
  secrets: Secrets,
): RequestInput<"CreateVolume"> | Unsayable => {
  const capabilities = capabilitiesIn(volume.capabilities, fineModes);
  if ("because" in capabilities) return capabilities;
  return {
    name: volume.name,
    capacityRange: capacityRange(volume),
    volumeCapabilities: [...capabilities],
    parameters: copy(volume.parameters),
    secrets: copy(secrets),
    volumeContentSource: contentSource(source),
    accessibilityRequirements: topologyRequirement(placeOf(volume)),
    mutableParameters: copy(volume.mutableParameters),
  };
};

export const publishRequest = (
  volume: VolumeRecord,
  attachment: Attachment,
  fineModes: Tri,
  secrets: Secrets,
): RequestInput<"ControllerPublishVolume"> | Unsayable => {
  const volumeCapability = capabilityIn(attachment, fineModes);
  if ("because" in volumeCapability) return volumeCapability;
  return {
    volumeId: volume.externalId,
    nodeId: attachment.nodeId,
    volumeCapability,
    readonly: attachment.readOnly,
    secrets: copy(secrets),
    volumeContext: copy(volume.context),
  };
};

/** "This field MUST be set" is said of node_id nowhere; but an Unpublish without it detaches from every node. */
export const unpublishRequest = (
  volume: VolumeRecord,
  attachment: Attachment,
  secrets: Secrets,
): RequestInput<"ControllerUnpublishVolume"> => ({
  volumeId: volume.externalId,
  nodeId: attachment.nodeId,
  secrets: copy(secrets),
});

export const validateRequest = (
  volume: VolumeRecord,
  fineModes: Tri,
  secrets: Secrets,
): RequestInput<"ValidateVolumeCapabilities"> | Unsayable => {
  const capabilities = capabilitiesIn(volume.capabilities, fineModes);
  if ("because" in capabilities) return capabilities;
  return {
    volumeId: volume.externalId,
    volumeContext: copy(volume.context),
    volumeCapabilities: [...capabilities],
    parameters: copy(volume.parameters),
    secrets: copy(secrets),
    mutableParameters: copy(volume.mutableParameters),
  };
};

/** A topology without segments says "anywhere", and then so does the whole list. */
export const accessibleFrom = (topologies: readonly { readonly segments: Segments }[]): readonly Segments[] =>
  topologies.some(({ segments }) => Object.keys(segments).length === 0)
    ? []
    : topologies.map(({ segments }) => ({ ...segments }));

export const createdFrom = (
  { volume }: ResponseOf<"CreateVolume">,
  pluginVersion: string,
  /** The place of an instance that reaches no other: a volume of which no place is told is there. */
  own?: Segments,
): CreatedVolume | undefined =>
  volume === undefined
    ? undefined
    : {
        externalId: volume.volumeId,
        capacity: wholeNumber(volume.capacityBytes),
        context: { ...volume.volumeContext },
        accessible:
          own !== undefined && volume.accessibleTopology.length === 0
            ? [own]
            : accessibleFrom(volume.accessibleTopology),
        pluginVersion,
      };

/** Why the size that a plugin made is not the one that was asked for; a size of 0 is one that it does not tell. */
export const sizeMistake = (volume: VolumeRecord, actual: number): string | undefined => {
  const { limit } = volume.capacity;
  const required = leastBytes(volume);
  if (actual === 0) return undefined;
  if (actual < required) return `made ${actual} bytes although at least ${required} were asked for`;
  if (limit > 0 && actual > limit) return `made ${actual} bytes although at most ${limit} were asked for`;
  return undefined;
};

/** Whether a place and a topology name the same key with different values; a key that only one of them names says nothing. */
const contradict = (place: Segments, topology: Segments): boolean =>
  Object.entries(topology).some(([key, value]) =>
    Object.entries(place).some(([has, is]) => has.toLowerCase() === key.toLowerCase() && is !== value),
  );

/** "The provisioned volume MUST be accessible from at least one of the requisite topologies." No topology at all says "from anywhere". */
export const placeMistake = (volume: VolumeRecord, accessible: readonly Segments[]): string | undefined => {
  const { required } = placeOf(volume);
  if (required.length === 0 || accessible.length === 0) return undefined;
  const reachable = required.some((place) => accessible.some((topology) => !contradict(place, topology)));
  return reachable
    ? undefined
    : `made it out of reach of every place that was asked for: ${JSON.stringify(accessible)}`;
};
