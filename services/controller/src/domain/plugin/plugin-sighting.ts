/** What the instances of a plugin that are seen now say of it together. Counts are asked of them, and stored nowhere. */
import type { Tri } from "@holdfast/model/tri";
import type { NodePlugin } from "../node/node.ts";
import { agreedCapabilities, type Capabilities, type MissedInstance } from "./plugin-record.ts";

/** One instance of a plugin: on a node, or beside a controller. */
export interface PluginSighting {
  /** Empty beside a controller. */
  readonly node: string;
  readonly controllerId: string;
  readonly socket: string;
  readonly plugin: NodePlugin;
  /** Its node is silent: what it says is old. */
  readonly silent: boolean;
}

export interface PluginHalf {
  readonly healthy: number;
  readonly expected: number;
}

/** What was there and is not: the part of its record that its instances cannot tell. */
export interface GoneInstances {
  readonly missed: Readonly<Record<string, MissedInstance>>;
  /** In words, and only while none is there. */
  readonly lastSeen: string | undefined;
}

const noneGone: GoneInstances = { missed: {}, lastSeen: undefined };

export interface PluginSummary {
  readonly controller: PluginHalf;
  readonly node: PluginHalf;
  readonly versions: readonly string[];
  readonly capabilities: Capabilities;
  readonly controllerRequired: Tri;
  /** What is missing before its volumes can be used anywhere, in one sentence; empty for nothing. */
  readonly missing: string;
}

/** Only what a half can know: the other families of its fingerprint are its silence, not its word. */
const families: Readonly<Record<NodePlugin["role"], readonly string[]>> = {
  CONTROLLER: ["plugin", "controller", "group"],
  NODE: ["plugin", "node"],
  MONOLITH: ["plugin", "controller", "group", "node"],
};

export const toldBy = ({ role, capabilities }: NodePlugin): Capabilities =>
  Object.fromEntries(
    Object.entries(capabilities).filter(([name]) => families[role].includes(name.slice(0, name.indexOf(":")))),
  );

const healthy = ({ plugin, silent }: PluginSighting): boolean => plugin.health === "HEALTHY" && !silent;

/** Which versions run; the one that is known to be the only one, or "" while none is seen. undefined: several. */
export const versionsOf = (sightings: readonly PluginSighting[]): readonly string[] =>
  [...new Set(sightings.map(({ plugin }) => plugin.version))].sort();

/** One word from a healthy instance counts before those of others, and "yes" before "no": a wrong yes waits, a wrong no skips. */
const requiredBy = (sightings: readonly PluginSighting[], remembered: Capabilities): Tri => {
  const said = sightings.flatMap(({ plugin }) => plugin.capabilities["plugin:CONTROLLER_SERVICE"] ?? []);
  if (said.includes("yes")) return "yes";
  if (said.includes("no")) return "no";
  return remembered["plugin:CONTROLLER_SERVICE"] ?? "unknown";
};

const missingFor = (
  name: string,
  controller: PluginHalf,
  node: PluginHalf,
  required: Tri,
  lastSeen: string | undefined,
): string => {
  if (node.healthy === 0)
    return node.expected === 0 || lastSeen !== undefined
      ? `no node has an instance of plugin ${name}${lastSeen === undefined ? "" : `; ${lastSeen}`}`
      : `none of the ${node.expected} instances of plugin ${name} on nodes is healthy`;
  if (required === "no" || controller.healthy > 0) return "";
  if (required === "unknown") return `whether plugin ${name} has a controller half is not known yet`;
  return `no healthy instance of the controller half of plugin ${name} was seen`;
};

export const summaryOf = (
  name: string,
  sightings: readonly PluginSighting[],
  remembered: Capabilities,
  { missed, lastSeen }: GoneInstances = noneGone,
): PluginSummary => {
  const half = (other: NodePlugin["role"], least: number): PluginHalf => {
    const those = sightings.filter(({ plugin }) => plugin.role !== other);
    return { healthy: those.filter(healthy).length, expected: Math.max(least, those.length) };
  };
  const controllerRequired = requiredBy(sightings, remembered);
  const controller = half("NODE", controllerRequired === "yes" ? 1 : 0);
  const there = half("CONTROLLER", 0);
  const node = { ...there, expected: there.expected + Object.keys(missed).length };
  const told = agreedCapabilities(sightings.filter(healthy).map(({ plugin }) => toldBy(plugin)));
  return {
    controller,
    node,
    versions: versionsOf(sightings),
    capabilities: sightings.some(healthy) ? { ...remembered, ...told } : remembered,
    controllerRequired,
    missing: missingFor(name, controller, node, controllerRequired, sightings.length > 0 ? undefined : lastSeen),
  };
};

/** "ebs.csi.aws.com 1.2: usable; node half 2 of 3, controller half 1 of 1". */
export const stateWords = (name: string, { versions, missing, node, controller }: PluginSummary): string => {
  const half = ({ healthy, expected }: PluginHalf): string => `${healthy} of ${expected}`;
  const named = [name, ...versions.filter((version) => version !== "")].join(" ");
  return `${named}: ${missing === "" ? "usable" : `not usable: ${missing}`}; node half ${half(node)}, controller half ${half(controller)}`;
};
