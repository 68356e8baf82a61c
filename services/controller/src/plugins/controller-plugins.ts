/**
 * The controller plugins beside this controller, by name: what is known of each, and one file for each family of calls. What a
 * call proves comes back as an outcome.
 */
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Tri } from "../domain/node.ts";
import type { VolumeRecord, VolumeRef } from "../domain/volume.ts";
import type { ControllerPluginFacts, ControllerPlugins } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { createAttachCalls } from "./attach-calls.ts";
import { createPluginCalls, type PluginInstance } from "./plugin-calls.ts";
import { createVolumeCalls } from "./volume-calls.ts";

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

const instanceOf = (connection: PluginConnection): PluginInstance | undefined => {
  const { facts } = connection.status();
  return facts && { id: connection.socketPath, facts, call: connection.call, stream: connection.stream };
};

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

  const calls = createPluginCalls({
    instance: (plugin) => {
      const connection = directory.get(plugin);
      return connection && instanceOf(connection);
    },
    trouble: (plugin) => facts(plugin).reason,
    secrets,
  });

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
    ...createVolumeCalls({ calls, secrets, log, sourceOf }),
    ...createAttachCalls(calls),
  };
};

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
