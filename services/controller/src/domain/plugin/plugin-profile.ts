/** What operators know of a plugin better than it does itself; for all that nobody said there is a default that fits an unknown driver. */
import { checkId, type Violation } from "../limits.ts";
import { type AttachProfile, checkAttachProfile, checkCount } from "./attach-profile.ts";
import { checkRepublishInterval, checkTokenRequests, type PublishingWishes } from "./publishing.ts";

export interface CodeReading {
  readonly method: string;
  readonly code: string;
  readonly readAs: string;
}

export interface PluginProfile extends AttachProfile, PublishingWishes {
  /** Calls under way to the controller half at a time. */
  readonly maxConcurrentCalls: number;
  readonly maxConcurrentAttachesPerNode: number;
  readonly fence: "none" | "on-detach";
  /** Empty = the built-in list. */
  readonly allowedFsTypes: readonly string[];
  readonly allowedMountFlags: readonly string[];
  readonly allowPathLikeIds: boolean;
  readonly controllerPlacement: "any" | "beside-controller";
  /** What a driver with EXPAND_VOLUME can expand that does not say of which kind. */
  readonly assumedExpansion: "offline" | "online" | "none";
  readonly codeReadings: readonly CodeReading[];
  /** CSI calls of which the driver bears only one at a time, whatever the volume. */
  readonly exclusiveMethods: readonly string[];
  /** Which volumes an instance of the controller half reaches; `auto`: as its own word and its topology suggest. */
  readonly reach: "auto" | "all" | "own";
  /** What the driver says of the condition of its volumes is always wrong. */
  readonly ignoreCondition: boolean;
  /** What it wants with NodeGetStorageHealth; absent = nothing. */
  readonly nodeHealthSecret?: PluginSecret;
}

/** A reference as records hold it, and the namespace that it has to be granted to. */
export interface PluginSecret {
  readonly ref: string;
  readonly namespace: string;
}

export const defaultProfile: PluginProfile = {
  maxConcurrentCalls: 64,
  maxConcurrentAttachesPerNode: 1,
  maxVolumesPerNode: 0,
  nodeClasses: [],
  attachPool: "",
  attachPoolLimit: 0,
  fence: "none",
  allowedFsTypes: [],
  allowedMountFlags: [],
  allowPathLikeIds: false,
  controllerPlacement: "any",
  assumedExpansion: "offline",
  codeReadings: [],
  exclusiveMethods: [],
  reach: "auto",
  ignoreCondition: false,
  tokenRequests: [],
  requiresRepublish: false,
  republishIntervalMs: 0,
  tokensInVolumeContext: false,
};

/** The calls that controllers make, for the fields that name one. */
export const profiledMethods = [
  "CreateVolume",
  "DeleteVolume",
  "ControllerPublishVolume",
  "ControllerUnpublishVolume",
  "ValidateVolumeCapabilities",
  "ListVolumes",
  "GetCapacity",
  "CreateSnapshot",
  "DeleteSnapshot",
  "ListSnapshots",
  "GetSnapshot",
  "ControllerExpandVolume",
  "ControllerGetVolume",
  "ControllerModifyVolume",
  "CreateVolumeGroupSnapshot",
  "DeleteVolumeGroupSnapshot",
  "GetVolumeGroupSnapshot",
] as const;

const readableCodes: ReadonlySet<string> = new Set([
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
]);

/** Each leaves the outcome unknown: nothing is ever taken for done or for refused that the driver did not say so. */
const lessCertain: ReadonlySet<string> = new Set(["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"]);

/** The only readings that prove something; each is the operator's word about what the driver means by it. */
const proving: ReadonlySet<string> = new Set(["ControllerUnpublishVolume NOT_FOUND OK"]);

const bounds = { calls: 1_000, attaches: 64, list: 64 } as const;

const known: ReadonlySet<string> = new Set(profiledMethods);

const checkReading = (field: string, { method, code, readAs }: CodeReading): readonly Violation[] => {
  const found: Violation[] = [];
  if (!known.has(method)) found.push({ field: `${field}.csi_method`, description: "is no call that controllers make" });
  if (!readableCodes.has(code)) found.push({ field: `${field}.code`, description: "is no code of a failure" });
  if (!lessCertain.has(readAs) && !proving.has(`${method} ${code} ${readAs}`))
    found.push({
      field: `${field}.read_as`,
      description:
        "has to be UNAVAILABLE, ABORTED or RESOURCE_EXHAUSTED; only NOT_FOUND of ControllerUnpublishVolume may be OK",
    });
  return found;
};

/** Stored and never asked about: a bound that holds nothing would only look like one. */
const checkServed = (field: string, isSet: boolean, instead: string): readonly Violation[] =>
  isSet ? [{ field, description: `is not served by this version; ${instead}` }] : [];

/** Every violation of a profile as a caller sends it, in which 0 still stands for the default. */
export const checkProfile = (profile: PluginProfile): readonly Violation[] => {
  const twice = profile.codeReadings.findIndex(({ method, code }, i) =>
    profile.codeReadings.slice(0, i).some((other) => other.method === method && other.code === code),
  );
  return [
    ...checkCount("profile.max_concurrent_calls", profile.maxConcurrentCalls, bounds.calls),
    ...checkCount("profile.max_concurrent_attaches_per_node", profile.maxConcurrentAttachesPerNode, bounds.attaches),
    ...checkAttachProfile(profile),
    ...checkServed("profile.allowed_fs_types", profile.allowedFsTypes.length > 0, "leave it out"),
    ...checkServed(
      "profile.allowed_mount_flags",
      profile.allowedMountFlags.length > 0,
      "leave it out: HOLDFAST_MOUNT_OPTIONS_ALLOWED of the agents says what may be asked for",
    ),
    ...checkServed(
      "profile.allow_path_like_ids",
      profile.allowPathLikeIds,
      "leave it out: ids are never made into paths",
    ),
    ...(profile.codeReadings.length > bounds.list
      ? [{ field: "profile.code_readings", description: `holds more than ${bounds.list}` }]
      : []),
    ...profile.codeReadings.flatMap((reading, i) => checkReading(`profile.code_readings[${i}]`, reading)),
    ...(twice < 0 ? [] : [{ field: `profile.code_readings[${twice}]`, description: "reads the same code once more" }]),
    ...profile.exclusiveMethods.flatMap((method, i) =>
      known.has(method)
        ? []
        : [{ field: `profile.exclusive_methods[${i}]`, description: "is no call that controllers make" }],
    ),
    ...(profile.nodeHealthSecret === undefined
      ? []
      : checkId("profile.node_health_secret.namespace", profile.nodeHealthSecret.namespace)),
    ...checkTokenRequests("profile.token_requests", "expiration", profile.tokenRequests),
    ...checkRepublishInterval("profile.republish_interval", profile.republishIntervalMs),
  ];
};

/** The defaults in the place of what was left at 0, and lists without repeats: the same profile is always written alike. */
export const settledProfile = (profile: PluginProfile): PluginProfile => ({
  ...profile,
  maxConcurrentCalls: profile.maxConcurrentCalls || defaultProfile.maxConcurrentCalls,
  maxConcurrentAttachesPerNode: profile.maxConcurrentAttachesPerNode || defaultProfile.maxConcurrentAttachesPerNode,
  allowedFsTypes: [...new Set(profile.allowedFsTypes)],
  allowedMountFlags: [...new Set(profile.allowedMountFlags)],
  exclusiveMethods: [...new Set(profile.exclusiveMethods)],
});

export const sameProfile = (a: PluginProfile, b: PluginProfile): boolean => JSON.stringify(a) === JSON.stringify(b);

/** What a code of a call is taken for under the profile. */
export const readCode = ({ codeReadings }: PluginProfile, method: string, code: string): string =>
  codeReadings.find((reading) => reading.method === method && reading.code === code)?.readAs ?? code;
