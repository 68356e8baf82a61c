import type { CapacityRange, TopologyRequirement, VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { type Call, tokensKey } from "../call.ts";
import { sameValue } from "../ids.ts";
import type { Method } from "../rpc.ts";
import { modeOf } from "./access-modes.ts";
import { everyCall, type Rule, rule } from "./rule.ts";

/** Fields csi.proto calls REQUIRED, as they are named in the request. */
const required: { readonly [M in Method]?: readonly string[] } = {
  CreateVolume: ["name", "volumeCapabilities"],
  DeleteVolume: ["volumeId"],
  ControllerPublishVolume: ["volumeId", "nodeId", "volumeCapability"],
  ControllerUnpublishVolume: ["volumeId"],
  ValidateVolumeCapabilities: ["volumeId", "volumeCapabilities"],
  CreateSnapshot: ["sourceVolumeId", "name"],
  DeleteSnapshot: ["snapshotId"],
  GetSnapshot: ["snapshotId"],
  ControllerExpandVolume: ["volumeId", "capacityRange"],
  ControllerGetVolume: ["volumeId"],
  ControllerGetVolumeHealth: ["volumeId"],
  ControllerModifyVolume: ["volumeId", "mutableParameters"],
  CreateVolumeGroupSnapshot: ["name", "sourceVolumeIds"],
  // Their snapshot_ids are REQUIRED too; the rule group-members-differ sees to that once the group is known to exist.
  DeleteVolumeGroupSnapshot: ["groupSnapshotId"],
  GetVolumeGroupSnapshot: ["groupSnapshotId"],
  GetMetadataAllocated: ["snapshotId"],
  GetMetadataDelta: ["baseSnapshotId", "targetSnapshotId"],
  NodeStageVolume: ["volumeId", "stagingTargetPath", "volumeCapability"],
  NodeUnstageVolume: ["volumeId", "stagingTargetPath"],
  NodePublishVolume: ["volumeId", "targetPath", "volumeCapability"],
  NodeUnpublishVolume: ["volumeId", "targetPath"],
  NodeGetVolumeStats: ["volumeId", "volumePath"],
  NodeGetVolumeHealth: ["volumeId"],
  NodeExpandVolume: ["volumeId", "volumePath"],
};

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === "" ||
  (typeof value === "object" && value !== null && Object.keys(value).length === 0);

const missingFields = ({ method, request }: Call): string | undefined => {
  const missing = (required[method] ?? []).filter((field) => {
    const value: unknown = Reflect.get(request, field);
    // An empty message is a value: only strings, lists and maps can be "not set" by being empty.
    return field === "volumeCapability" || field === "capacityRange" ? value === undefined : isEmpty(value);
  });
  return missing.length === 0 ? undefined : `${method} lacks ${missing.join(", ")}`;
};

const capabilitiesIn = (request: object): readonly VolumeCapability[] => {
  const one: unknown = Reflect.get(request, "volumeCapability");
  const many: unknown = Reflect.get(request, "volumeCapabilities");
  return [...(one === undefined ? [] : [one as VolumeCapability]), ...(Array.isArray(many) ? many : [])];
};

const brokenCapability = ({ method, request }: Call): string | undefined => {
  for (const capability of capabilitiesIn(request)) {
    if (capability.block === undefined && capability.mount === undefined)
      return `${method}: a volume capability has no access type`;
    if (modeOf(capability) === "UNKNOWN") return `${method}: a volume capability has no access mode`;
  }
  return undefined;
};

const brokenRange = ({ method, request }: Call): string | undefined => {
  const range = Reflect.get(request, "capacityRange") as CapacityRange | undefined;
  if (range === undefined) return undefined;
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes < 0n || limitBytes < 0n) return `${method}: capacity_range is negative`;
  if (requiredBytes === 0n && limitBytes === 0n) return `${method}: capacity_range has no bound`;
  if (limitBytes !== 0n && limitBytes < requiredBytes) return `${method}: limit_bytes is below required_bytes`;
  return undefined;
};

const badSecretKey = ({ method, request }: Call): string | undefined => {
  const secrets: unknown = Reflect.get(request, "secrets");
  if (typeof secrets !== "object" || secrets === null) return undefined;
  const bad = Object.keys(secrets).find((name) => name !== tokensKey && !/^[-_.A-Za-z0-9]+$/.test(name));
  return bad === undefined ? undefined : `${method}: a secret's key holds other characters than A-Z a-z 0-9 - _ .`;
};

const brokenRequirement = (method: Method, wanted: TopologyRequirement | undefined): string | undefined => {
  if (wanted === undefined) return undefined;
  const { requisite, preferred } = wanted;
  if (requisite.length === 0 && preferred.length === 0) return `${method}: accessibility_requirements is empty`;
  const stray = requisite.length > 0 && preferred.some((one) => !requisite.some((other) => sameValue(one, other)));
  return stray ? `${method}: a preferred topology is not among the requisite` : undefined;
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const bannedInNames = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/;

export const fieldRules: readonly Rule[] = [
  everyCall(
    "field-missing",
    "INVALID_ARGUMENT",
    "A REQUIRED field must be set; a REQUIRED list or map must not be empty.",
    missingFields,
  ),
  everyCall(
    "capability-incomplete",
    "INVALID_ARGUMENT",
    "Each volume capability says an access type and an access mode other than UNKNOWN.",
    brokenCapability,
  ),
  everyCall(
    "capacity-range-invalid",
    "INVALID_ARGUMENT",
    "A capacity range has at least one bound, none negative, and its limit is not below what is required.",
    brokenRange,
  ),
  everyCall(
    "secret-key-invalid",
    "INVALID_ARGUMENT",
    "Keys of secrets are made of letters, digits, '-', '_' and '.'.",
    badSecretKey,
  ),
  rule(
    "name-invalid",
    "INVALID_ARGUMENT",
    "A volume's name is Unicode without control characters but tab, LF and CR.",
    {
      CreateVolume: ({ name }) =>
        bannedInNames.test(name) ? "CreateVolume: name holds control characters" : undefined,
    },
  ),
  rule(
    "node-id-empty",
    "INVALID_ARGUMENT",
    "Without node_id a volume is pulled from every node: never what one claim's release means.",
    {
      ControllerUnpublishVolume: ({ nodeId }) =>
        nodeId === "" ? "ControllerUnpublishVolume without node_id would detach every node" : undefined,
    },
  ),
  rule(
    "content-source-incomplete",
    "INVALID_ARGUMENT",
    "A content source names the snapshot or the volume to copy from.",
    {
      CreateVolume: ({ volumeContentSource: source }) =>
        source !== undefined && !source.snapshot?.snapshotId && !source.volume?.volumeId
          ? "CreateVolume: volume_content_source names nothing"
          : undefined,
    },
  ),
  rule(
    "topology-requirement-invalid",
    "INVALID_ARGUMENT",
    "A topology requirement names at least one topology, and preferred ones are among the requisite when there are any.",
    {
      CreateVolume: ({ accessibilityRequirements }) => brokenRequirement("CreateVolume", accessibilityRequirements),
      CreateSnapshot: ({ accessibilityRequirements }) => brokenRequirement("CreateSnapshot", accessibilityRequirements),
    },
  ),
  rule("health-path-relative", "INVALID_ARGUMENT", "The paths of NodeGetVolumeHealth are absolute, or empty.", {
    NodeGetVolumeHealth: ({ volumePublishPath, stagingTargetPath }) =>
      [volumePublishPath, stagingTargetPath].every((path) => path === "" || path.startsWith("/"))
        ? undefined
        : "NodeGetVolumeHealth: a path is not absolute",
  }),
  rule("paging-invalid", "INVALID_ARGUMENT", "max_entries is not negative.", {
    ListVolumes: ({ maxEntries }) => (maxEntries < 0 ? "ListVolumes: max_entries is negative" : undefined),
    ControllerListVolumeHealth: ({ maxEntries }) =>
      maxEntries < 0 ? "ControllerListVolumeHealth: max_entries is negative" : undefined,
    ListSnapshots: ({ maxEntries }) => (maxEntries < 0 ? "ListSnapshots: max_entries is negative" : undefined),
  }),
];
