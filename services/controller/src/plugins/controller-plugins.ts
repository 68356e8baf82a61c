/**
 * The controller plugins beside this controller, by name. Each method is one CSI call at the newest instance that is ready; what it
 * proves comes back as an outcome. Nothing is repeated here: whoever owes the effect has stored so before it asks.
 */
import type { CallOutcome, Code } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Tri } from "../domain/node.ts";
import type { Failure, Outcome } from "../domain/outcome.ts";
import type { Attachment, ContentSource, VolumeRecord, VolumeRef } from "../domain/volume.ts";
import type { CreatedVolume } from "../domain/volume-change.ts";
import type { CallContext, ControllerPluginFacts, ControllerPlugins } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { attachedNodes } from "./attached-nodes.ts";
import {
  createdFrom,
  createRequest,
  publishRequest,
  sizeMistake,
  type Unsayable,
  unpublishRequest,
} from "./convert.ts";
import { failedFromCall, failureFrom, outcomeFromCall } from "./outcome-from-call.ts";

export interface ControllerPluginsOptions {
  readonly directory: Pick<PluginDirectory, "get" | "list" | "onChange">;
  readonly secrets: Secrets;
  readonly log: Logger;
  /** The volume that another one is to be made from. */
  readonly sourceOf: (ref: VolumeRef) => Promise<Pick<VolumeRecord, "externalId"> | undefined>;
  /** What node instances announce of a plugin's CONTROLLER_SERVICE: "no" from them means that there is nothing to wait for. */
  readonly announcedByNodes: (plugin: string) => Tri;
  /** Plugins that were seen on nodes, whatever becomes of their controller half. */
  readonly namesOnNodes: () => readonly string[];
}

const done = <T>(value: T): Outcome<T> => ({ kind: "done", value });

/** Nothing was sent. With "block" somebody has to do something first; it is still looked at again. */
const notSent = (
  reason: string,
  message: string,
  advice: "again" | "block" = "again",
): { readonly kind: "unknown"; readonly failure: Failure } => ({
  kind: "unknown",
  failure: { reason, message, advice },
});

export const createControllerPlugins = (options: ControllerPluginsOptions): ControllerPlugins => {
  const { directory, secrets, log, sourceOf, announcedByNodes, namesOnNodes } = options;

  const nameOf = (connection: PluginConnection): string | undefined => connection.status().facts?.name;
  /** The newest of this name, whatever its phase. */
  const lastSeen = (plugin: string): PluginConnection | undefined =>
    directory.list().findLast((connection) => nameOf(connection) === plugin);

  const facts = (plugin: string): ControllerPluginFacts => {
    const connection = directory.get(plugin) ?? lastSeen(plugin);
    const status = connection?.status();
    const known = status?.facts;
    if (status === undefined || known === undefined) return unseen(plugin, announcedByNodes(plugin));
    const ready = status.phase === "ready";
    const why = status.reason === undefined ? "" : `: ${status.reason}`;
    return {
      ready,
      reason: ready ? "" : `the controller half of plugin ${plugin} is ${status.phase}${why}`,
      version: known.version,
      createsVolumes: known.controller.CREATE_DELETE_VOLUME,
      attaches: known.controller.PUBLISH_UNPUBLISH_VOLUME,
      publishesReadOnly: known.controller.PUBLISH_READONLY,
      singleNodeMultiWriter: known.controller.SINGLE_NODE_MULTI_WRITER,
      listsPublishedNodes: known.controller.LIST_VOLUMES_PUBLISHED_NODES,
    };
  };

  /** The instance and the secrets for one call, or why there is no call. */
  const withInstance = async <T>(
    plugin: string,
    ref: string | undefined,
    call: (connection: PluginConnection, values: Readonly<Record<string, string>>) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> => {
    const connection = directory.get(plugin);
    if (connection === undefined) return notSent("PLUGIN_NOT_READY", facts(plugin).reason);
    try {
      return await call(connection, await secrets.resolve(ref));
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      if (error.reason === "SECRET_NOT_FOUND") return notSent(error.reason, error.message, "block");
      if (error.kind !== "invalid") throw error;
      // Our own bounds found the request unfit before it was sent: no repeat will ever be better.
      return { kind: "refused", failure: { reason: error.reason, message: error.message, advice: "fail" } };
    }
  };

  const fineModes = (connection: PluginConnection): Tri =>
    connection.status().facts?.controller.SINGLE_NODE_MULTI_WRITER ?? "unknown";

  /** The content source in the plugin's own words. */
  const sourceIn = async ({ namespace, contentSource }: VolumeRecord): Promise<ContentSource | "gone"> => {
    if (contentSource.kind !== "volume") return contentSource;
    const source = await sourceOf({ namespace, id: contentSource.id });
    return source === undefined || source.externalId === "" ? "gone" : { kind: "volume", id: source.externalId };
  };

  const subjectOf = (volume: VolumeRecord, { attempt, claim }: CallContext, node?: string) => {
    return {
      namespace: volume.namespace,
      volume: volume.id,
      attempt,
      ...(claim === undefined ? {} : { claim }),
      ...(node === undefined ? {} : { node }),
    };
  };

  const deleteAt = async (
    connection: PluginConnection,
    volume: VolumeRecord,
    externalId: string,
    call: CallContext,
  ): Promise<CallOutcome<unknown>> => {
    const values = await secrets.resolve(volume.secretRefs.delete ?? volume.secretRefs.create);
    const request = { volumeId: externalId, secrets: { ...values } };
    return connection.call("DeleteVolume", request, { signal: call.signal, subject: subjectOf(volume, call) });
  };

  /**
   * A volume of the wrong size is deleted again, under the intent to create that is still stored: until the delete is known to
   * have happened the create is owed as before and finds the same volume by its name, so that it is never lost.
   */
  const undo = async (
    connection: PluginConnection,
    volume: VolumeRecord,
    made: CreatedVolume,
    mistake: string,
    call: CallContext,
  ): Promise<Outcome<CreatedVolume>> => {
    const message = `plugin ${volume.plugin} ${mistake}`;
    log.warn("a volume of the wrong size is deleted again", {
      volume: `${volume.namespace}/${volume.id}`,
      plugin: volume.plugin,
      external_id: made.externalId,
      mistake,
    });
    const gone = await deleteAt(connection, volume, made.externalId, call);
    if (gone.outcome !== "done") {
      const failure = failureFrom(gone.failure);
      return { kind: "unknown", failure: { ...failure, message: `${message}; deleting it again: ${failure.message}` } };
    }
    return {
      kind: "refused",
      failure: { reason: "PLUGIN_REFUSED", message: `${message}; it was deleted again`, advice: "fail" },
    };
  };

  return {
    facts,
    names: () => [
      ...new Set([...directory.list().flatMap((connection) => nameOf(connection) ?? []), ...namesOnNodes()]),
    ],
    onChange: (listener) =>
      directory.onChange((connection) => {
        const name = nameOf(connection);
        if (name !== undefined) listener(name);
      }),

    createVolume: (volume, call) =>
      withInstance(volume.plugin, volume.secretRefs.create, async (connection, values) => {
        const source = await sourceIn(volume);
        if (source === "gone") return sourceGone(volume);
        const request = createRequest(volume, source, fineModes(connection), values);
        if ("because" in request) return unsayable(volume.plugin, request);
        const version = connection.status().facts?.version ?? "";
        const answer = await connection.call("CreateVolume", request, {
          signal: call.signal,
          subject: subjectOf(volume, call),
        });
        if (answer.outcome !== "done") return failedFromCall(answer, call.attempt);
        const made = createdFrom(answer.value, version);
        if (made === undefined) return notSent("INTERNAL", "CreateVolume was answered without a volume");
        const mistake = sizeMistake(volume, made.capacity);
        return mistake === undefined ? done(made) : undo(connection, volume, made, mistake, call);
      }),

    deleteVolume: (volume, call) =>
      withInstance(volume.plugin, undefined, async (connection) =>
        outcomeFromCall(await deleteAt(connection, volume, volume.externalId, call), call.attempt, nothing),
      ),

    publish: (volume, attachment, call) =>
      withInstance(volume.plugin, attachment.secretRef, async (connection, values) => {
        const request = publishRequest(volume, attachment, fineModes(connection), values);
        if ("because" in request) return unsayable(volume.plugin, request);
        const answer = await connection.call("ControllerPublishVolume", request, {
          signal: call.signal,
          subject: subjectOf(volume, call, attachment.node),
        });
        return outcomeFromCall(answer, call.attempt, ({ publishContext }) => done({ ...publishContext }));
      }),

    unpublish: (volume, attachment, call) =>
      withInstance(volume.plugin, attachment.secretRef, async (connection, values) => {
        if (attachment.nodeId === "") return notSent("INTERNAL", namelessNode(volume, attachment));
        const answer = await connection.call(
          "ControllerUnpublishVolume",
          unpublishRequest(volume, attachment, values),
          { signal: call.signal, subject: subjectOf(volume, call, attachment.node) },
        );
        return outcomeFromCall(answer, call.attempt, nothing);
      }),

    async attachmentAbsent(volume, attachment, call) {
      const connection = directory.get(volume.plugin);
      if (connection === undefined) return "unknown";
      const nodes = await attachedNodes(connection, volume.externalId, call.signal);
      if (nodes === "unknown") return "unknown";
      return nodes.includes(attachment.nodeId) ? "no" : "yes";
    },
  };
};

const nothing = (): Outcome<void> => done(undefined);

const unsayable = <T>(plugin: string, { mode, because }: Unsayable): Outcome<T> =>
  because === "unknown"
    ? notSent("PLUGIN_NOT_READY", `plugin ${plugin} has not told yet whether it knows access mode ${mode}`)
    : {
        kind: "refused",
        failure: {
          reason: "PLUGIN_REFUSED",
          message: `plugin ${plugin} does not know access mode ${mode}: it lacks the capability SINGLE_NODE_MULTI_WRITER`,
          advice: "fail",
          code: "UNIMPLEMENTED" satisfies Code,
        },
      };

const sourceGone = (volume: VolumeRecord): Outcome<never> => ({
  kind: "refused",
  failure: {
    reason: "PLUGIN_REFUSED",
    message: `the volume that ${volume.namespace}/${volume.id} is to be made from is gone`,
    advice: "fail",
  },
});

const namelessNode = (volume: VolumeRecord, { node }: Attachment): string =>
  `volume ${volume.namespace}/${volume.id} has no driver's id of node ${node} on record, and without one it would be detached everywhere`;

const unseen = (plugin: string, controllerService: Tri): ControllerPluginFacts => {
  // A plugin whose node half says that it has no controller half needs none.
  const has: Tri = controllerService === "no" ? "no" : "unknown";
  return {
    ready: false,
    reason:
      has === "no"
        ? `plugin ${plugin} has no controller half`
        : `no instance of the controller half of plugin ${plugin} was seen yet; start it beside the controller`,
    version: "",
    createsVolumes: has,
    attaches: has,
    publishesReadOnly: has,
    singleNodeMultiWriter: "unknown",
    listsPublishedNodes: has,
  };
};
