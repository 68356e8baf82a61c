/** The node plugins of this host as the volume manager calls them: CSI messages end here. */
import { createHmac, randomBytes } from "node:crypto";
import { longCallMs } from "@holdfast/csi/call-policy";
import type { CallSubject } from "@holdfast/csi/call-spans";
import type { CsiCaller } from "@holdfast/csi/csi-caller";
import { volumeHealthEntries } from "@holdfast/csi/health";
import type { CallOutcome } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import { createRefusedCredentials } from "@holdfast/csi/refused-credentials";
import { capabilityIn } from "@holdfast/csi/volume-capability";
import type { VolumeUse } from "@holdfast/model/volume-use";
import type { Clock } from "@holdfast/shared/async/clock";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { type PathMap, sameTree } from "../domain/path-map.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { MountMethod, MountOrder, NodePlugin, NodePlugins, PublishTokens, UndoCause } from "../ports.ts";
import { answered, settled } from "./call-answer.ts";
import { figuresOf } from "./figures.ts";
import type { HostedPlugins } from "./host/hosted-plugins.ts";
import { createLongCalls, type LongCalls } from "./long-calls.ts";

/**
 * A call with secrets that were refused is not made again with the very same ones. What is kept of a secret is a digest under a key of this
 * process alone, in memory: it tells whether the next one is another.
 */
export function createSecretGuard(clock: Pick<Clock, "monotonic">): SecretGuard {
  const refused = createRefusedCredentials(clock);
  const key = randomBytes(32);
  const versionOf = (secrets: Secrets): string => {
    const entries = Object.entries(secrets).sort(([a], [b]) => (a < b ? -1 : 1));
    return entries.length === 0 ? "" : createHmac("sha256", key).update(JSON.stringify(entries)).digest("base64url");
  };
  return (plugin, caller, secrets) => refused.guard(plugin, caller, { version: versionOf(secrets) });
}

export function createNodePlugins(
  plugins: Pick<HostedPlugins, "get" | "pathsOf">,
  node: string,
  clock: Pick<Clock, "now" | "monotonic">,
): NodePlugins & { readonly longCalls: LongCalls["list"] } {
  const guard = createSecretGuard(clock);
  const longCalls = createLongCalls(clock, longCallMs);
  return {
    longCalls: longCalls.list,
    get(name) {
      const connection = plugins.get(name, "node");
      return connection === undefined
        ? undefined
        : nodePlugin(name, connection, {
            ...{ node, paths: plugins.pathsOf(connection), guard, longCalls },
            instance: connection.instanceId,
          });
    },
  };
}

type Caller = Pick<CsiCaller, "call"> & Pick<PluginConnection, "status">;
type Secrets = Readonly<Record<string, string>>;
/** The plugin as a call with these secrets may use it. */
type SecretGuard = (plugin: string, caller: Pick<CsiCaller, "call">, secrets: Secrets) => Pick<CsiCaller, "call">;

export interface NodePluginOptions {
  readonly node: string;
  readonly paths?: Pick<PathMap, "toPlugin">;
  readonly guard: SecretGuard;
  readonly longCalls: Pick<LongCalls, "watch">;
  /** As controllers know it. */
  readonly instance: string;
}

export function nodePlugin(
  name: string,
  connection: Caller,
  { node, paths = sameTree, guard, longCalls, instance }: NodePluginOptions,
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
  const undoOf = (ref: VolumeRef, cause?: UndoCause): CallSubject => ({
    namespace: ref.namespace,
    volume: ref.volume,
    node,
    ...cause,
  });
  const subjectOf = ({ ref, facts, contents }: MountOrder): CallSubject => ({
    ...undoOf(ref),
    claim: facts.claimUid,
    attempt: contents.attempt,
  });
  const stages = () => connection.status().facts?.node.STAGE_UNSTAGE_VOLUME ?? "unknown";
  /** What the plugin lacks a word for is sent all the same: the gate of the connection then refuses the call, or lets it wait. */
  const capabilityOf = (used: VolumeUse): VolumeCapability => {
    const offers = connection.status().facts?.node;
    const use = offers?.VOLUME_MOUNT_GROUP === "no" ? { ...used, volumeMountGroup: "" } : used;
    const said = capabilityIn(use, offers?.SINGLE_NODE_MULTI_WRITER ?? "unknown");
    return "because" in said ? capabilityIn(use, "yes") : said;
  };

  const mounting = (
    method: MountMethod,
    { ref, facts, contents }: MountOrder,
    call: () => Promise<CallOutcome<unknown>>,
  ) =>
    longCalls.watch({ method, ref, instance, claimUid: facts.claimUid, attempt: contents.attempt }, () =>
      settled(method, call),
    );
  const undoing = (
    method: MountMethod,
    ref: VolumeRef,
    cause: UndoCause | undefined,
    call: () => Promise<CallOutcome<unknown>>,
  ) =>
    longCalls.watch({ method, ref, instance, claimUid: cause?.claim, attempt: cause?.attempt }, () =>
      settled(method, call),
    );

  return {
    name,
    stages,
    stage: (order, signal) =>
      mounting("NodeStageVolume", order, () =>
        guard(name, connection, order.contents.stageSecrets).call(
          "NodeStageVolume",
          {
            volumeId: order.ref.externalId,
            publishContext: order.contents.publishContext,
            stagingTargetPath: seen(order.stagingPath),
            volumeCapability: capabilityOf(usedAs(order)),
            secrets: order.contents.stageSecrets,
            volumeContext: order.contents.volumeContext,
          },
          { signal, subject: subjectOf(order) },
        ),
      ),
    publish: (order, signal) => {
      const { contents, deadlineMs, tokens = noTokens } = order;
      const secrets = { ...contents.publishSecrets, ...tokens.secrets };
      return mounting("NodePublishVolume", order, () =>
        guard(name, connection, secrets).call(
          "NodePublishVolume",
          {
            volumeId: order.ref.externalId,
            publishContext: order.contents.publishContext,
            stagingTargetPath: seen(order.stagingPath),
            targetPath: seen(order.facts.target),
            volumeCapability: capabilityOf(usedAs(order)),
            readonly: order.facts.readOnly,
            secrets,
            volumeContext: { ...contents.volumeContext, ...tokens.volumeContext },
          },
          { signal, deadlineMs, subject: subjectOf(order), secrets: tokens.sensitive },
        ),
      );
    },
    unpublish: (ref, targetPath, signal, cause) =>
      undoing("NodeUnpublishVolume", ref, cause, () =>
        connection.call(
          "NodeUnpublishVolume",
          { volumeId: ref.externalId, targetPath: seen(targetPath) },
          { signal, subject: undoOf(ref, cause) },
        ),
      ),
    unstage: (ref, stagingTargetPath, signal, cause) =>
      undoing("NodeUnstageVolume", ref, cause, () =>
        connection.call(
          "NodeUnstageVolume",
          { volumeId: ref.externalId, stagingTargetPath: seen(stagingTargetPath) },
          { signal, subject: undoOf(ref, cause) },
        ),
      ),
    expand: ({ ref, capacity, usedAs: used, secrets, attempt }, { target, stagingPath }, signal) =>
      longCalls.watch({ method: "NodeExpandVolume", ref, instance, attempt }, () =>
        answered(
          "NodeExpandVolume",
          () =>
            guard(name, connection, secrets).call(
              "NodeExpandVolume",
              {
                volumeId: ref.externalId,
                volumePath: seen(target),
                stagingTargetPath: seen(stagingPath),
                capacityRange: capacity,
                volumeCapability: used === undefined ? undefined : capabilityOf(used),
                secrets,
              },
              { signal, subject: { ...undoOf(ref), ...(attempt === undefined ? {} : { attempt }) } },
            ),
          ({ capacityBytes }) => ({ capacityBytes }),
        ),
      ),
    stats: ({ ref, target, stagingPath }, deadlineMs, signal) =>
      answered(
        "NodeGetVolumeStats",
        () =>
          connection.call(
            "NodeGetVolumeStats",
            { volumeId: ref.externalId, volumePath: seen(target), stagingTargetPath: seen(stagingPath) },
            { signal, deadlineMs, subject: undoOf(ref) },
          ),
        figuresOf,
      ),
    health: async ({ ref, target, stagingPath }, deadlineMs, signal) => {
      if (connection.status().facts?.node.GET_VOLUME_HEALTH !== "yes") return undefined;
      const answer = await answered(
        "NodeGetVolumeHealth",
        () =>
          connection.call(
            "NodeGetVolumeHealth",
            { volumeId: ref.externalId, volumePublishPath: seen(target), stagingTargetPath: seen(stagingPath) },
            { signal, deadlineMs, subject: undoOf(ref) },
          ),
        ({ volumeHealth }) => volumeHealthEntries(volumeHealth ?? { healthStatuses: [] }),
      );
      return answer.kind === "done" ? answer.value : undefined;
    },
  };
}

const noTokens: PublishTokens = { secrets: {}, volumeContext: {}, sensitive: {} };

const usedAs = ({ facts, contents }: MountOrder): VolumeUse => ({ ...facts, ...contents });
