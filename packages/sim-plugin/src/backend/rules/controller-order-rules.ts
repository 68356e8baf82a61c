import { hashOf, sameValue } from "../ids.ts";
import { attachmentOf, publicationsAt, type SimState, type StringMap, stageOf } from "../model.ts";
import { isMultiNode, modeOf } from "./access-modes.ts";
import { type Rule, rule, type World } from "./rule.ts";

/** Why the volume is in use on that node: by what is there, or by what a call in flight may still bring about. */
export const useOn = (world: World, volume: string, node: string): string | undefined => {
  if (world.state.nodes.get(node)?.fenced) return undefined;
  const publication = publicationsAt(world.state, volume, node)[0];
  if (publication !== undefined) return `published at ${publication.target}`;
  const stage = stageOf(world.state, volume, node);
  if (stage !== undefined) return `staged at ${stage.path}`;
  const coming = world.inFlight.find(
    (other) =>
      other.volume === volume &&
      other.node === node &&
      (other.method === "NodeStageVolume" || other.method === "NodePublishVolume"),
  );
  return coming === undefined ? undefined : `about to be mounted by ${coming.method} (call ${coming.seq})`;
};

const anyUse = (world: World, volume: string): string | undefined => {
  const { state } = world;
  const attachment = state.attachments.get(volume)?.[0];
  if (attachment !== undefined) return `attached to ${attachment.node}`;
  const nodes = [...(state.stages.get(volume) ?? []), ...(state.publications.get(volume) ?? [])].map((use) => use.node);
  for (const node of nodes) {
    const use = useOn(world, volume, node);
    if (use !== undefined) return `${use} on ${node}`;
  }
  const coming = world.inFlight.find((other) => other.volume === volume);
  return coming === undefined ? undefined : `in use by ${coming.method} (call ${coming.seq})`;
};

const reaches = (state: SimState, volume: string, node: string): boolean => {
  const wanted = state.volumes.get(volume)?.topology ?? [];
  const there = state.nodes.get(node)?.topology;
  if (there === undefined || wanted.length === 0) return true;
  // Topology keys compare without regard to case.
  const have = new Map(Object.entries(there).map(([name, value]) => [name.toLowerCase(), value]));
  return wanted.some((segments) =>
    Object.entries(segments).every(([name, value]) => have.get(name.toLowerCase()) === value),
  );
};

const overlaps = (a: StringMap, b: StringMap): boolean =>
  Object.entries(a).every(([name, value]) => (b[name] ?? value) === value);

export const controllerOrderRules: readonly Rule[] = [
  rule(
    "snapshot-used-elsewhere",
    "RESOURCE_EXHAUSTED",
    "A volume is made from a snapshot only where the snapshot's accessible_topology lets it be used.",
    {
      CreateVolume: ({ accessibilityRequirements: wanted, volumeContentSource: source }, world) => {
        const places = world.state.snapshots.get(source?.snapshot?.snapshotId ?? "")?.topology ?? [];
        if (wanted === undefined || places.length === 0) return undefined;
        const asked = [...wanted.requisite, ...wanted.preferred];
        return asked.every(({ segments }) => places.some((place) => overlaps(segments, place)))
          ? undefined
          : `CreateVolume asks for a place where snapshot ${source?.snapshot?.snapshotId} cannot be used`;
      },
    },
  ),
  rule(
    "delete-while-in-use",
    "FAILED_PRECONDITION",
    "A volume is deleted only after it was unpublished from every node and every path.",
    {
      DeleteVolume: ({ volumeId }, world) => {
        const use = anyUse(world, volumeId);
        return use === undefined ? undefined : `DeleteVolume of ${volumeId}, which is ${use}`;
      },
    },
  ),
  rule(
    "detach-while-in-use",
    "FAILED_PRECONDITION",
    "ControllerUnpublish comes after NodeUnstage and every NodeUnpublish on that node have succeeded.",
    {
      ControllerUnpublishVolume: ({ volumeId, nodeId }, world) => {
        const use = useOn(world, volumeId, nodeId);
        return use === undefined
          ? undefined
          : `ControllerUnpublishVolume of ${volumeId} from ${nodeId}, where it is ${use}`;
      },
    },
  ),
  rule(
    "attach-replay-differs",
    "ALREADY_EXISTS",
    "A repeated ControllerPublish carries the same capability and readonly flag as the first.",
    {
      ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability, readonly }, world) => {
        const old = attachmentOf(world.state, volumeId, nodeId);
        if (old === undefined || (old.readonly === readonly && sameValue(old.capability, volumeCapability)))
          return undefined;
        return `${volumeId} is attached to ${nodeId} with another capability or readonly flag`;
      },
    },
  ),
  rule("attach-second-node", "FAILED_PRECONDITION", "Only a MULTI_NODE volume is published at a second node.", {
    ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability }, world) => {
      const other = world.state.attachments.get(volumeId)?.find((one) => one.node !== nodeId);
      if (other === undefined || (isMultiNode(volumeCapability) && isMultiNode(other.capability))) return undefined;
      return `${volumeId} is attached to ${other.node} and its access mode allows one node`;
    },
  }),
  rule(
    "attach-second-writer",
    "FAILED_PRECONDITION",
    "MULTI_NODE_SINGLE_WRITER has one node that writes; the others are published readonly.",
    {
      ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability, readonly }, world) => {
        if (
          modeOf(volumeCapability) !== "MULTI_NODE_SINGLE_WRITER" ||
          readonly ||
          !world.has("controller.PUBLISH_READONLY")
        )
          return undefined;
        const writer = world.state.attachments.get(volumeId)?.find((one) => one.node !== nodeId && !one.readonly);
        return writer === undefined ? undefined : `${volumeId} already has its writer on ${writer.node}`;
      },
    },
  ),
  rule(
    "attach-beyond-limit",
    "RESOURCE_EXHAUSTED",
    "The orchestrator never publishes more volumes at a node than max_volumes_per_node.",
    {
      ControllerPublishVolume: ({ volumeId, nodeId }, world) => {
        const limit = world.state.nodes.get(nodeId)?.maxVolumes ?? 0;
        if (limit === 0 || attachmentOf(world.state, volumeId, nodeId) !== undefined) return undefined;
        const attached = [...world.state.attachments.values()].flat().filter((one) => one.node === nodeId).length;
        // One that is asked for again is there already, and counted.
        const coming = world.inFlight.filter(
          (other) =>
            other.method === "ControllerPublishVolume" &&
            other.node === nodeId &&
            other.volume !== volumeId &&
            attachmentOf(world.state, other.volume ?? "", nodeId) === undefined,
        ).length;
        return attached + coming < limit
          ? undefined
          : `${nodeId} takes ${limit} volumes and has ${attached} attached, ${coming} coming`;
      },
    },
  ),
  rule(
    "attach-outside-topology",
    "FAILED_PRECONDITION",
    "A volume is published only at nodes its accessible_topology reaches.",
    {
      ControllerPublishVolume: ({ volumeId, nodeId }, world) =>
        !world.has("plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS") || reaches(world.state, volumeId, nodeId)
          ? undefined
          : `${volumeId} cannot be reached from ${nodeId}`,
    },
  ),
  rule(
    "detach-secrets-differ",
    "UNAUTHENTICATED",
    "ControllerUnpublish carries the secrets that ControllerPublish carried.",
    {
      ControllerUnpublishVolume: ({ volumeId, nodeId, secrets }, world) => {
        const attachment = attachmentOf(world.state, volumeId, nodeId);
        return attachment === undefined || attachment.secretsHash === hashOf(secrets)
          ? undefined
          : `ControllerUnpublishVolume of ${volumeId} with other secrets than its publish`;
      },
    },
  ),
  rule(
    "expand-while-in-use",
    "FAILED_PRECONDITION",
    "A plugin that expands OFFLINE only is asked when the volume is published nowhere.",
    {
      ControllerExpandVolume: ({ volumeId }, world) => {
        if (world.has("plugin.EXPANSION_ONLINE") || !world.has("plugin.EXPANSION_OFFLINE")) return undefined;
        const use = anyUse(world, volumeId);
        return use === undefined ? undefined : `ControllerExpandVolume of ${volumeId}, which is ${use}`;
      },
    },
  ),
];
