import type { NodePublishVolumeRequest, NodeStageVolumeRequest } from "@holdfast/shared/gen/csi/v1/csi";
import { nodePublishArguments, stageArguments } from "../arguments.ts";
import { sameValue } from "../ids.ts";
import { attachmentOf, publicationOf, publicationsAt, stageOf } from "../model.ts";
import { allowsSecondTarget, modeOf } from "./access-modes.ts";
import { type Rule, rule, type World } from "./rule.ts";

const nodeOf = (world: World): string => world.node ?? "";

const notAttached = (world: World, volume: string, method: string): string | undefined => {
  if (!world.has("controller.PUBLISH_UNPUBLISH_VOLUME")) return undefined;
  const node = nodeOf(world);
  const leaving = world.inFlight.find(
    (other) => other.method === "ControllerUnpublishVolume" && other.volume === volume && other.node === node,
  );
  if (leaving !== undefined) return `${method} of ${volume} while call ${leaving.seq} detaches it from ${node}`;
  return attachmentOf(world.state, volume, node) === undefined
    ? `${method} of ${volume}, which is not attached to ${node}`
    : undefined;
};

const otherPublishContext = (
  world: World,
  request: NodeStageVolumeRequest | NodePublishVolumeRequest,
): string | undefined => {
  const attachment = attachmentOf(world.state, request.volumeId, nodeOf(world));
  return attachment === undefined || sameValue(attachment.publishContext, request.publishContext)
    ? undefined
    : `publish_context of ${request.volumeId} is not what ControllerPublishVolume answered for ${nodeOf(world)}`;
};

/** Against the step before: that a step is repeated in other words is the replay rules' business. */
const otherCapability = (
  world: World,
  request: NodeStageVolumeRequest | NodePublishVolumeRequest,
): string | undefined => {
  const attachment = attachmentOf(world.state, request.volumeId, nodeOf(world));
  const stage = "targetPath" in request ? stageOf(world.state, request.volumeId, nodeOf(world)) : undefined;
  const before = attachment ?? stage;
  return before === undefined || sameValue(before.capability, request.volumeCapability)
    ? undefined
    : `volume_capability of ${request.volumeId} changed since the step before`;
};

const notHere = (world: World, volume: string, path: string, method: string): string | undefined =>
  stageOf(world.state, volume, nodeOf(world))?.path === path ||
  publicationOf(world.state, volume, nodeOf(world), path) !== undefined
    ? undefined
    : `${method}: ${volume} is neither staged nor published at ${path}`;

export const nodeOrderRules: readonly Rule[] = [
  rule("stage-replay-differs", "ALREADY_EXISTS", "A repeated NodeStage to the same path has the same arguments.", {
    NodeStageVolume: (request, world) => {
      const stage = stageOf(world.state, request.volumeId, nodeOf(world));
      return stage === undefined ||
        stage.path !== request.stagingTargetPath ||
        stage.argumentsHash === stageArguments(request)
        ? undefined
        : `${request.volumeId} is staged there with other arguments`;
    },
  }),
  rule(
    "publish-replay-differs",
    "ALREADY_EXISTS",
    "A repeated NodePublish to the same target has the same arguments.",
    {
      NodePublishVolume: (request, world) => {
        const old = publicationOf(world.state, request.volumeId, nodeOf(world), request.targetPath);
        return old === undefined || old.argumentsHash === nodePublishArguments(request)
          ? undefined
          : `${request.volumeId} is published at ${request.targetPath} with other arguments`;
      },
    },
  ),
  rule(
    "stage-before-attach",
    "FAILED_PRECONDITION",
    "NodeStage comes after a successful ControllerPublish to that node, where the plugin attaches.",
    {
      NodeStageVolume: ({ volumeId }, world) => notAttached(world, volumeId, "NodeStageVolume"),
    },
  ),
  rule(
    "publish-before-attach",
    "FAILED_PRECONDITION",
    "NodePublish comes after a successful ControllerPublish to that node, where the plugin attaches.",
    {
      NodePublishVolume: ({ volumeId }, world) => notAttached(world, volumeId, "NodePublishVolume"),
    },
  ),
  rule("staging-path-missing", "FAILED_PRECONDITION", "staging_target_path is set when the plugin stages.", {
    NodePublishVolume: ({ stagingTargetPath }, world) =>
      world.has("node.STAGE_UNSTAGE_VOLUME") && stagingTargetPath === ""
        ? "NodePublishVolume without staging_target_path"
        : undefined,
  }),
  rule(
    "publish-before-stage",
    "FAILED_PRECONDITION",
    "NodePublish comes after NodeStage of the volume has succeeded on that node.",
    {
      NodePublishVolume: ({ volumeId }, world) =>
        world.has("node.STAGE_UNSTAGE_VOLUME") && stageOf(world.state, volumeId, nodeOf(world)) === undefined
          ? `NodePublishVolume of ${volumeId}, which is not staged on ${nodeOf(world)}`
          : undefined,
    },
  ),
  rule("staging-path-differs", "INVALID_ARGUMENT", "NodePublish and NodeUnstage name the path that NodeStage used.", {
    NodePublishVolume: ({ volumeId, stagingTargetPath }, world) => {
      const stage = stageOf(world.state, volumeId, nodeOf(world));
      return stage === undefined || stagingTargetPath === "" || stage.path === stagingTargetPath
        ? undefined
        : `${volumeId} is staged at ${stage.path}, not at ${stagingTargetPath}`;
    },
    NodeUnstageVolume: ({ volumeId, stagingTargetPath }, world) => {
      const stage = stageOf(world.state, volumeId, nodeOf(world));
      return stage === undefined || stage.path === stagingTargetPath
        ? undefined
        : `${volumeId} is staged at ${stage.path}, not at ${stagingTargetPath}`;
    },
  }),
  rule("second-staging-path", "FAILED_PRECONDITION", "A volume has one staging path on a node.", {
    NodeStageVolume: ({ volumeId, stagingTargetPath }, world) => {
      const stage = stageOf(world.state, volumeId, nodeOf(world));
      return stage === undefined || stage.path === stagingTargetPath
        ? undefined
        : `${volumeId} is staged at ${stage.path} already`;
    },
  }),
  rule(
    "publish-context-changed",
    "INVALID_ARGUMENT",
    "publish_context is passed on exactly as ControllerPublish answered it.",
    {
      NodeStageVolume: (request, world) => otherPublishContext(world, request),
      NodePublishVolume: (request, world) => otherPublishContext(world, request),
    },
  ),
  rule("capability-changed", "INVALID_ARGUMENT", "One use of a volume has one capability, from attach to publish.", {
    NodeStageVolume: (request, world) => otherCapability(world, request),
    NodePublishVolume: (request, world) => otherCapability(world, request),
  }),
  rule(
    "publish-second-target",
    "FAILED_PRECONDITION",
    "On one node a volume shows at a second target only with MULTI_NODE modes or SINGLE_NODE_MULTI_WRITER.",
    {
      NodePublishVolume: ({ volumeId, targetPath, volumeCapability }, world) => {
        const other = publicationsAt(world.state, volumeId, nodeOf(world)).find((one) => one.target !== targetPath);
        return other === undefined || allowsSecondTarget(volumeCapability)
          ? undefined
          : `${volumeId} is published at ${other.target} and ${modeOf(volumeCapability)} allows one target`;
      },
    },
  ),
  rule(
    "publish-second-writer",
    "FAILED_PRECONDITION",
    "MULTI_NODE_SINGLE_WRITER has one node that writes; the others publish readonly.",
    {
      NodePublishVolume: ({ volumeId, volumeCapability, readonly }, world) => {
        if (readonly || modeOf(volumeCapability) !== "MULTI_NODE_SINGLE_WRITER") return undefined;
        const writer = world.state.publications
          .get(volumeId)
          ?.find((one) => one.node !== nodeOf(world) && !one.readonly);
        return writer === undefined ? undefined : `${volumeId} is published for writing on ${writer.node}`;
      },
    },
  ),
  rule(
    "unstage-while-published",
    "FAILED_PRECONDITION",
    "NodeUnstage comes after every NodeUnpublish of the volume on that node has succeeded.",
    {
      NodeUnstageVolume: ({ volumeId }, world) => {
        const use = publicationsAt(world.state, volumeId, nodeOf(world))[0];
        return use === undefined ? undefined : `NodeUnstageVolume of ${volumeId}, which is published at ${use.target}`;
      },
    },
  ),
  rule("node-expand-not-here", "NOT_FOUND", "NodeExpand names a path where the volume is staged or published.", {
    NodeExpandVolume: ({ volumeId, volumePath }, world) => notHere(world, volumeId, volumePath, "NodeExpandVolume"),
  }),
  rule("stats-not-here", "NOT_FOUND", "NodeGetVolumeStats names a path where the volume is staged or published.", {
    NodeGetVolumeStats: ({ volumeId, volumePath }, world) => notHere(world, volumeId, volumePath, "NodeGetVolumeStats"),
  }),
  rule(
    "staging-directory-missing",
    "FAILED_PRECONDITION",
    "The orchestrator makes the staging directory before NodeStage.",
    {
      NodeStageVolume: ({ stagingTargetPath }, { paths }) =>
        paths?.stagingPath === undefined || paths.stagingPath === "directory"
          ? undefined
          : `${stagingTargetPath} is no directory`,
    },
  ),
  rule(
    "target-parent-missing",
    "FAILED_PRECONDITION",
    "The orchestrator makes the parent directory of the target before NodePublish.",
    {
      NodePublishVolume: ({ targetPath }, { paths }) =>
        paths?.targetParent === undefined || paths.targetParent === "directory"
          ? undefined
          : `the parent of ${targetPath} is no directory`,
    },
  ),
];
