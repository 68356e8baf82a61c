/** The node plugins of this host as the volume manager calls them: CSI messages end here. */
import type { CsiCaller } from "@holdfast/csi/csi-caller";
import type { CallSubject } from "@holdfast/csi/csi-exchange";
import type { UnaryMethod } from "@holdfast/csi/methods";
import type { CallOutcome, CallFailure as CsiFailure, Verdict } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import { invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { VolumeCapability_AccessMode_Mode as CsiMode } from "@holdfast/shared/gen/csi/v1/csi";
import { type PathMap, sameTree } from "../domain/path-map.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { CallResult, MountOrder, NodeMethod, NodePlugin, NodePlugins } from "../ports.ts";
import type { HostedPlugins } from "./host/hosted-plugins.ts";

export function createNodePlugins(plugins: Pick<HostedPlugins, "get" | "pathsOf">, node: string): NodePlugins {
  return {
    get(name) {
      const connection = plugins.get(name, "node");
      return connection === undefined ? undefined : nodePlugin(name, connection, node, plugins.pathsOf(connection));
    },
  };
}

type Caller = Pick<CsiCaller, "call"> & Pick<PluginConnection, "status">;

export function nodePlugin(
  name: string,
  connection: Caller,
  node: string,
  paths: Pick<PathMap, "toPlugin"> = sameTree,
): NodePlugin {
  /** As the plugin sees it; a plugin that does not stage is given no staging path. */
  const seen = (path: string): string => {
    const inside = path === "" ? "" : paths.toPlugin(path);
    if (inside === undefined) {
      const description = `${path} is outside of what plugin ${name} was given to see`;
      throw invalidArgument([{ field: "target_path", description }]);
    }
    return inside;
  };
  const undoOf = (ref: VolumeRef): CallSubject => ({ namespace: ref.namespace, volume: ref.volume, node });
  const subjectOf = ({ ref, facts, contents }: MountOrder): CallSubject => ({
    ...undoOf(ref),
    claim: facts.claimUid,
    attempt: contents.attempt,
  });
  const stages = () => connection.status().facts?.node.STAGE_UNSTAGE_VOLUME ?? "unknown";
  const takesGroup = () => connection.status().facts?.node.VOLUME_MOUNT_GROUP === "yes";

  return {
    name,
    stages,
    stage: (order, signal) =>
      settled("NodeStageVolume", () =>
        connection.call(
          "NodeStageVolume",
          {
            volumeId: order.ref.externalId,
            publishContext: order.contents.publishContext,
            stagingTargetPath: seen(order.stagingPath),
            volumeCapability: capabilityOf(order, takesGroup()),
            secrets: order.contents.stageSecrets,
            volumeContext: order.contents.volumeContext,
          },
          { signal, subject: subjectOf(order) },
        ),
      ),
    publish: (order, signal) =>
      settled("NodePublishVolume", () =>
        connection.call(
          "NodePublishVolume",
          {
            volumeId: order.ref.externalId,
            publishContext: order.contents.publishContext,
            stagingTargetPath: seen(order.stagingPath),
            targetPath: seen(order.facts.target),
            volumeCapability: capabilityOf(order, takesGroup()),
            readonly: order.facts.readOnly,
            secrets: order.contents.publishSecrets,
            volumeContext: order.contents.volumeContext,
          },
          { signal, subject: subjectOf(order) },
        ),
      ),
    unpublish: (ref, targetPath, signal) =>
      settled("NodeUnpublishVolume", () =>
        connection.call(
          "NodeUnpublishVolume",
          { volumeId: ref.externalId, targetPath: seen(targetPath) },
          { signal, subject: undoOf(ref) },
        ),
      ),
    unstage: (ref, stagingTargetPath, signal) =>
      settled("NodeUnstageVolume", () =>
        connection.call(
          "NodeUnstageVolume",
          { volumeId: ref.externalId, stagingTargetPath: seen(stagingTargetPath) },
          { signal, subject: undoOf(ref) },
        ),
      ),
  };
}

function capabilityOf({ facts, contents }: MountOrder, takesGroup: boolean) {
  const accessMode = { mode: CsiMode[facts.accessMode] };
  if (facts.attachmentMode === "BLOCK_DEVICE") return { accessMode, block: {} };
  const volumeMountGroup = takesGroup ? contents.volumeMountGroup : "";
  return { accessMode, mount: { fsType: facts.fsType, mountFlags: [...contents.mountFlags], volumeMountGroup } };
}

async function settled<M extends UnaryMethod>(
  method: NodeMethod & M,
  call: () => Promise<CallOutcome<unknown>>,
): Promise<CallResult> {
  try {
    const outcome = await call();
    if (outcome.outcome === "done") return { kind: "done" };
    return { kind: outcome.outcome, failure: failureOf(method, outcome.failure) };
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    // The request breaks a limit of CSI: it was not sent, and never will be.
    const failure = {
      method,
      code: "INVALID_ARGUMENT",
      message: error.message,
      sent: false,
      advice: "fail",
      needs: needs.change,
    } as const;
    return { kind: "refused", failure };
  }
}

const needs: Record<NonNullable<Verdict["needs"]>, string> = {
  credentials: "correct the secret that the volume refers to",
  capabilities: "use a version of the plugin that offers the call",
  change: "correct what the plugin's message names",
  "other-node-detached": "detach the volume from the other node",
};

function failureOf(method: NodeMethod, { code, message, sent, verdict }: CsiFailure) {
  return {
    method,
    code,
    message,
    sent,
    advice: adviceOf[verdict.then],
    needs: verdict.needs === undefined ? "" : needs[verdict.needs],
  };
}

type Advice = Extract<CallResult, { failure: unknown }>["failure"]["advice"];

/** Node calls never need the backend's listing, and a failure never continues; both would be a plain repeat. */
const adviceOf: Record<Verdict["then"], Advice> = {
  continue: "again",
  again: "again",
  wait: "wait",
  fail: "fail",
  block: "block",
  "check-mounts": "check-mounts",
  "check-absence": "again",
};
