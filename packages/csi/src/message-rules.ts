/** Rules for the messages that CSI uses in several requests and replies. */
import {
  type CapacityRange,
  VolumeCapability_AccessMode_Mode as Mode,
  type Snapshot,
  type Topology,
  type TopologyRequirement,
  type Volume,
  type VolumeCapability,
  type VolumeCapability_MountVolume,
  type VolumeContentSource,
  type VolumeGroupSnapshot,
  type VolumeHealth,
  type VolumeHealth_VolumeHealthEntry,
} from "@holdfast/shared/gen/csi/v1/csi";
import {
  all,
  anything,
  bytesOf,
  each,
  hasControlCharacters,
  id,
  limits,
  map,
  message,
  moment,
  nonEmpty,
  notNegative,
  optional,
  type Rule,
  required,
  some,
  text,
} from "./field-rules.ts";

const knownModes = new Set<number>(Object.values(Mode).filter((mode) => mode > 0));

/** "The total size of all mount flags ... 4 KiB"; a flag may be sensitive, so it is named by its place only. */
const mountFlags: Rule<string[]> = (flags, field, report) => {
  const size = flags.reduce((sum, flag) => sum + bytesOf(flag), 0);
  if (size > limits.mountFlags) report(field, `has ${size} bytes in all, at most ${limits.mountFlags} are allowed`);
  flags.forEach((flag, index) => {
    if (flag === "") report(`${field}[${index}]`, "is empty");
    else if (hasControlCharacters(flag)) report(`${field}[${index}]`, "has control characters");
  });
};

const mount = message<VolumeCapability_MountVolume>({ fsType: id, mountFlags, volumeMountGroup: id });

/** The parts hold, whoever sent them; a newer plugin may name modes that we do not know. */
const capabilityParts = message<VolumeCapability>({ block: anything, mount: optional(mount), accessMode: anything });

const capabilityChoice: Rule<VolumeCapability> = (capability, field, report) => {
  if ((capability.block === undefined) === (capability.mount === undefined))
    report(field, "needs exactly one of block and mount");
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  if (!knownModes.has(mode)) report(`${field}.access_mode`, "is required, and not UNKNOWN");
};

/** A capability that we ask for. */
export const capability = all(capabilityParts, capabilityChoice);
export const capabilities = all<VolumeCapability[]>(some, each(capability));
/** A capability that a plugin reports. */
export const reportedCapability = capabilityParts;

/** "At least one of the two must be set", none negative, and a limit below the requirement can never be met. */
export const capacityRange: Rule<CapacityRange> = ({ requiredBytes, limitBytes }, field, report) => {
  if (requiredBytes < 0n) report(`${field}.required_bytes`, "must not be negative");
  if (limitBytes < 0n) report(`${field}.limit_bytes`, "must not be negative");
  if (requiredBytes === 0n && limitBytes === 0n) report(field, "needs required_bytes or limit_bytes");
  if (requiredBytes > 0n && limitBytes > 0n && limitBytes < requiredBytes)
    report(field, "has a limit_bytes below required_bytes");
};

/** Keys are compared without regard to case, so two that differ by case only are one key with two values. */
const segments: Rule<Record<string, string>> = (value, field, report) => {
  map(value, field, report);
  const keys = Object.keys(value);
  if (keys.length === 0) report(field, "needs at least one entry");
  if (new Set(keys.map((key) => key.toLowerCase())).size !== keys.length)
    report(field, "has keys that differ by case only");
};

export const topology = message<Topology>({ segments });

/** A reported topology without segments says "anywhere"; plugins do send it. */
export const reportedTopology: Rule<Topology> = (value, field, report) => {
  if (Object.keys(value.segments).length > 0) topology(value, field, report);
};

const topologyKey = ({ segments }: Topology): string =>
  JSON.stringify(
    Object.entries(segments)
      .map(([key, value]) => [key.toLowerCase(), value])
      .sort(),
  );

export const topologyRequirement: Rule<TopologyRequirement> = ({ requisite, preferred }, field, report) => {
  each(topology)(requisite, `${field}.requisite`, report);
  each(topology)(preferred, `${field}.preferred`, report);
  if (requisite.length === 0 && preferred.length === 0) report(field, "needs a requisite or a preferred topology");
  if (requisite.length === 0) return;
  const allowed = new Set(requisite.map(topologyKey));
  preferred.forEach((one, index) => {
    if (!allowed.has(topologyKey(one))) report(`${field}.preferred[${index}]`, "is not among the requisite ones");
  });
};

export const contentSource: Rule<VolumeContentSource> = ({ snapshot, volume }, field, report) => {
  if ((snapshot === undefined) === (volume === undefined)) report(field, "needs exactly one of snapshot and volume");
  if (snapshot) nonEmpty(id)(snapshot.snapshotId, `${field}.snapshot.snapshot_id`, report);
  if (volume) nonEmpty(id)(volume.volumeId, `${field}.volume.volume_id`, report);
};

/** As plugins report it. A capacity of 0 means "not known", whatever was asked for. */
export const volume = message<Volume>({
  capacityBytes: notNegative,
  volumeId: nonEmpty(id),
  volumeContext: map,
  contentSource: optional(contentSource),
  accessibleTopology: each(reportedTopology),
});

export const snapshot = message<Snapshot>({
  sizeBytes: notNegative,
  snapshotId: nonEmpty(id),
  sourceVolumeId: nonEmpty(id),
  creationTime: required(moment),
  readyToUse: anything,
  groupSnapshotId: id,
  accessibleTopology: each(reportedTopology),
});

/** 0 says nothing; a number that we do not know says something new. */
const healthStatus: Rule<number> = (value, field, report) => {
  if (value === 0) report(field, "is required");
};

/** The message is for people, and cut where it is shown. */
export const healthEntry = { status: healthStatus, reason: nonEmpty(text), message: anything };

/** As plugins report it. */
export const volumeHealth = message<VolumeHealth>({
  volumeId: nonEmpty(id),
  healthStatuses: each(message<VolumeHealth_VolumeHealthEntry>(healthEntry)),
});

export const groupSnapshot = message<VolumeGroupSnapshot>({
  groupSnapshotId: nonEmpty(id),
  snapshots: all(some, each(snapshot)),
  creationTime: required(moment),
  readyToUse: anything,
});

export const name = nonEmpty(text);
