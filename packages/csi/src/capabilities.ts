/**
 * What a plugin announces, three-valued. "no" is only ever said by the plugin (a list without the entry, or
 * UNIMPLEMENTED to the question); a question that failed otherwise leaves "unknown", and an unknown capability stops a
 * call without refusing it. Values that this version of CSI does not know are ignored: plugins may be newer than we are.
 */
import type { Tri } from "@holdfast/model/tri";

export const pluginCaps = [
  "CONTROLLER_SERVICE",
  "VOLUME_ACCESSIBILITY_CONSTRAINTS",
  "GROUP_CONTROLLER_SERVICE",
  "SNAPSHOT_METADATA_SERVICE",
  "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
  "VOLUME_EXPANSION_ONLINE",
  "VOLUME_EXPANSION_OFFLINE",
] as const;
export type PluginCap = (typeof pluginCaps)[number];

export const controllerCaps = [
  "CREATE_DELETE_VOLUME",
  "PUBLISH_UNPUBLISH_VOLUME",
  "LIST_VOLUMES",
  "GET_CAPACITY",
  "CREATE_DELETE_SNAPSHOT",
  "LIST_SNAPSHOTS",
  "CLONE_VOLUME",
  "PUBLISH_READONLY",
  "EXPAND_VOLUME",
  "LIST_VOLUMES_PUBLISHED_NODES",
  "VOLUME_CONDITION",
  "GET_VOLUME",
  "SINGLE_NODE_MULTI_WRITER",
  "MODIFY_VOLUME",
  "GET_SNAPSHOT",
  "GET_VOLUME_HEALTH",
  "LIST_VOLUME_HEALTH",
] as const;
export type ControllerCap = (typeof controllerCaps)[number];

export const nodeCaps = [
  "STAGE_UNSTAGE_VOLUME",
  "GET_VOLUME_STATS",
  "EXPAND_VOLUME",
  "VOLUME_CONDITION",
  "SINGLE_NODE_MULTI_WRITER",
  "VOLUME_MOUNT_GROUP",
  "GET_VOLUME_HEALTH",
  "GET_STORAGE_HEALTH",
] as const;
export type NodeCap = (typeof nodeCaps)[number];

export const groupCaps = ["CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"] as const;
export type GroupCap = (typeof groupCaps)[number];

/** A capability by the service that announces it. */
export type Capability =
  | `plugin:${PluginCap}`
  | `controller:${ControllerCap}`
  | `node:${NodeCap}`
  | `group:${GroupCap}`;

export interface PluginNodeInfo {
  /** The plugin's own name for this node: what ControllerPublishVolume must be given. */
  readonly nodeId: string;
  /** 0: the orchestrator decides. */
  readonly maxVolumes: number;
  readonly topology: Readonly<Record<string, string>>;
}

/** Where a socket sits decides which services may be called through it. */
export type PluginRole = "controller" | "node" | "monolith";

/** Everything read from one incarnation of a plugin; it lasts exactly as long as the connection. */
export interface PluginFacts {
  readonly name: string;
  readonly version: string;
  readonly manifest: Readonly<Record<string, string>>;
  readonly role: PluginRole;
  readonly plugin: Readonly<Record<PluginCap, Tri>>;
  readonly controller: Readonly<Record<ControllerCap, Tri>>;
  readonly node: Readonly<Record<NodeCap, Tri>>;
  readonly group: Readonly<Record<GroupCap, Tri>>;
  /** Node roles only, and only when the plugin implements NodeGetInfo. */
  readonly nodeInfo?: PluginNodeInfo;
}

/** The same standing for each of a set of capabilities. */
export function allCaps<C extends string>(names: readonly C[], standing: Tri): Record<C, Tri> {
  return Object.fromEntries(names.map((name) => [name, standing])) as Record<C, Tri>;
}

/** An answered question: what was announced is "yes", the rest "no", strangers are dropped. */
export function announcedCaps<C extends string>(names: readonly C[], announced: Iterable<string>): Record<C, Tri> {
  const said = new Set(announced);
  return Object.fromEntries(names.map((name) => [name, said.has(name) ? "yes" : "no"])) as Record<C, Tri>;
}

export function standingOf(facts: PluginFacts, capability: Capability): Tri {
  const colon = capability.indexOf(":");
  const family = capability.slice(0, colon) as "plugin" | "controller" | "node" | "group";
  const name = capability.slice(colon + 1);
  const standings: Readonly<Record<string, Tri>> = facts[family];
  return standings[name] ?? "unknown";
}
