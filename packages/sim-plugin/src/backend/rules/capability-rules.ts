import type { Call } from "../call.ts";
import type { Capability } from "../capabilities.ts";
import { methodFacts } from "../methods.ts";
import type { StringMap } from "../model.ts";
import { isNewMode } from "./access-modes.ts";
import { everyCall, type Rule, rule, type World } from "./rule.ts";

const filled = (map: StringMap | undefined): boolean => map !== undefined && Object.keys(map).length > 0;

const notOffered = ({ method }: Call, world: World): string | undefined => {
  const { needs } = methodFacts[method];
  return needs.every(world.has)
    ? undefined
    : `${method} needs the capability ${needs.filter((one) => !world.has(one)).join(", ")}`;
};

const lacking = (world: World, capability: Capability, what: string): string | undefined =>
  world.has(capability) ? undefined : `${what} needs the capability ${capability}`;

const newModes = ({ method, request }: Call, world: World): string | undefined => {
  const service = methodFacts[method].service;
  if (service !== "controller" && service !== "node") return undefined;
  const one: unknown = Reflect.get(request, "volumeCapability");
  const many: unknown = Reflect.get(request, "volumeCapabilities");
  const capabilities = [...(one === undefined ? [] : [one]), ...(Array.isArray(many) ? many : [])];
  return capabilities.some((capability) => isNewMode(capability))
    ? lacking(
        world,
        `${service}.SINGLE_NODE_MULTI_WRITER`,
        `${method} with SINGLE_NODE_SINGLE_WRITER or SINGLE_NODE_MULTI_WRITER`,
      )
    : undefined;
};

const mountGroup = ({ method, request }: Call, world: World): string | undefined => {
  const capability = Reflect.get(request, "volumeCapability") as { mount?: { volumeMountGroup?: string } } | undefined;
  return methodFacts[method].service === "node" && capability?.mount?.volumeMountGroup
    ? lacking(world, "node.VOLUME_MOUNT_GROUP", `${method} with volume_mount_group`)
    : undefined;
};

const publishContext = (context: StringMap, world: World): string | undefined =>
  filled(context) ? lacking(world, "controller.PUBLISH_UNPUBLISH_VOLUME", "publish_context") : undefined;

export const capabilityRules: readonly Rule[] = [
  everyCall(
    "capability-absent",
    "UNIMPLEMENTED",
    "A call is made only when the plugin offers the capability for it.",
    notOffered,
  ),
  rule(
    "readonly-without-capability",
    "INVALID_ARGUMENT",
    "readonly stays false when the plugin lacks PUBLISH_READONLY.",
    {
      ControllerPublishVolume: ({ readonly }, world) =>
        readonly ? lacking(world, "controller.PUBLISH_READONLY", "ControllerPublishVolume with readonly") : undefined,
    },
  ),
  rule(
    "mutable-parameters-without-capability",
    "INVALID_ARGUMENT",
    "mutable_parameters stay empty when the plugin lacks MODIFY_VOLUME.",
    {
      CreateVolume: ({ mutableParameters }, world) =>
        filled(mutableParameters) ? lacking(world, "controller.MODIFY_VOLUME", "mutable_parameters") : undefined,
      ValidateVolumeCapabilities: ({ mutableParameters }, world) =>
        filled(mutableParameters) ? lacking(world, "controller.MODIFY_VOLUME", "mutable_parameters") : undefined,
    },
  ),
  rule(
    "content-source-without-capability",
    "INVALID_ARGUMENT",
    "Copying from a volume needs CLONE_VOLUME, from a snapshot CREATE_DELETE_SNAPSHOT.",
    {
      CreateVolume: ({ volumeContentSource: source }, world) => {
        if (source?.snapshot !== undefined)
          return lacking(world, "controller.CREATE_DELETE_SNAPSHOT", "a snapshot as content source");
        return source?.volume === undefined
          ? undefined
          : lacking(world, "controller.CLONE_VOLUME", "a volume as content source");
      },
    },
  ),
  rule(
    "topology-without-capability",
    "INVALID_ARGUMENT",
    "Topology is sent only to plugins with VOLUME_ACCESSIBILITY_CONSTRAINTS.",
    {
      CreateVolume: ({ accessibilityRequirements }, world) =>
        accessibilityRequirements === undefined
          ? undefined
          : lacking(world, "plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS", "accessibility_requirements"),
      GetCapacity: ({ accessibleTopology }, world) =>
        accessibleTopology === undefined
          ? undefined
          : lacking(world, "plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS", "accessible_topology"),
    },
  ),
  rule(
    "snapshot-topology-without-capability",
    "INVALID_ARGUMENT",
    "CreateSnapshot is given a topology only by plugins' leave: SNAPSHOT_ACCESSIBILITY_CONSTRAINTS.",
    {
      CreateSnapshot: ({ accessibilityRequirements }, world) =>
        accessibilityRequirements === undefined
          ? undefined
          : lacking(world, "plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS", "accessibility_requirements"),
    },
  ),
  rule(
    "publish-context-without-capability",
    "INVALID_ARGUMENT",
    "publish_context stays empty when the plugin lacks PUBLISH_UNPUBLISH_VOLUME.",
    {
      NodeStageVolume: (request, world) => publishContext(request.publishContext, world),
      NodePublishVolume: (request, world) => publishContext(request.publishContext, world),
    },
  ),
  rule(
    "staging-path-without-capability",
    "INVALID_ARGUMENT",
    "staging_target_path is sent only to plugins with STAGE_UNSTAGE_VOLUME.",
    {
      NodePublishVolume: ({ stagingTargetPath }, world) =>
        stagingTargetPath === "" ? undefined : lacking(world, "node.STAGE_UNSTAGE_VOLUME", "staging_target_path"),
      NodeExpandVolume: ({ stagingTargetPath }, world) =>
        stagingTargetPath === "" ? undefined : lacking(world, "node.STAGE_UNSTAGE_VOLUME", "staging_target_path"),
      NodeGetVolumeHealth: ({ stagingTargetPath }, world) =>
        stagingTargetPath === "" ? undefined : lacking(world, "node.STAGE_UNSTAGE_VOLUME", "staging_target_path"),
      NodeGetVolumeStats: ({ stagingTargetPath }, world) =>
        stagingTargetPath === "" ? undefined : lacking(world, "node.STAGE_UNSTAGE_VOLUME", "staging_target_path"),
    },
  ),
  everyCall(
    "access-mode-without-capability",
    "INVALID_ARGUMENT",
    "The two newer single-node modes are sent only to plugins with SINGLE_NODE_MULTI_WRITER.",
    newModes,
  ),
  everyCall(
    "mount-group-without-capability",
    "INVALID_ARGUMENT",
    "volume_mount_group is sent only to plugins with VOLUME_MOUNT_GROUP.",
    mountGroup,
  ),
];
