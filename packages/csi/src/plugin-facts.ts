/**
 * Reads who a plugin is and what it can do. Who it is, once per connection: another one may answer after every reconnect.
 * What it can do, with each look at it, since a backend may offer more or less from one minute to the next. Identity comes
 * first; no other service is asked before its presence is announced.
 */

import type { Tri } from "@holdfast/model/tri";
import { wholeNumber } from "@holdfast/model/whole-number";
import {
  ControllerServiceCapability_RPC_Type as ControllerType,
  PluginCapability_VolumeExpansion_Type as ExpansionType,
  GroupControllerServiceCapability_RPC_Type as GroupType,
  NodeServiceCapability_RPC_Type as NodeType,
  PluginCapability_Service_Type as ServiceType,
} from "@holdfast/shared/gen/csi/v1/csi";
import {
  allCaps,
  announcedCaps,
  controllerCaps,
  groupCaps,
  nodeCaps,
  type PluginFacts,
  type PluginNodeInfo,
  type PluginRole,
  pluginCaps,
} from "./capabilities.ts";
import type { ResponseOf } from "./messages.ts";
import type { UnaryMethod } from "./methods.ts";
import type { CallFailure, CallOutcome } from "./outcome.ts";

/** A request without fields, to the plugin whose facts are read. */
export type Ask = <M extends UnaryMethod>(method: M) => Promise<CallOutcome<ResponseOf<M>>>;

export type FactsReading =
  /** `complete` is false while some capability is unknown: read again later. */
  { readonly facts: PluginFacts; readonly complete: boolean } | { readonly failure: CallFailure };

export async function readPluginFacts(role: PluginRole, ask: Ask): Promise<FactsReading> {
  const info = await ask("GetPluginInfo");
  if (info.outcome !== "done") return { failure: info.failure };
  const capabilities = await readCapabilities(role, ask);
  if ("failure" in capabilities) return capabilities;
  // Asked beside the controller too: an instance that is a node as well may reach no more than its own place.
  const nodeInfo = await readNodeInfo(ask);
  if (nodeInfo !== undefined && "failure" in nodeInfo) return nodeInfo;

  const { name, vendorVersion: version, manifest } = info.value;
  const facts = { name, version, manifest, role, ...capabilities };
  const standings: Tri[] = [capabilities.controller, capabilities.group, capabilities.node].flatMap(Object.values);
  return {
    facts: nodeInfo === undefined ? facts : { ...facts, nodeInfo },
    complete: !standings.includes("unknown"),
  };
}

/** The very same facts when nothing changed. What cannot be read now stays as it was known. */
export async function rereadCapabilities(known: PluginFacts, ask: Ask): Promise<PluginFacts> {
  const now = await readCapabilities(known.role, ask);
  if ("failure" in now) return known;
  const merged = {
    plugin: now.plugin,
    controller: keepKnown(known.controller, now.controller),
    node: keepKnown(known.node, now.node),
    group: keepKnown(known.group, now.group),
  };
  const same = families.every((name) => sameStandings(known[name], merged[name]));
  return same ? known : { ...known, ...merged };
}

const families = ["plugin", "controller", "node", "group"] as const;
type Capabilities = Pick<PluginFacts, (typeof families)[number]>;

function keepKnown<C extends string>(known: Record<C, Tri>, now: Record<C, Tri>): Record<C, Tri> {
  const names = Object.keys(now) as C[];
  return Object.fromEntries(names.map((name) => [name, now[name] === "unknown" ? known[name] : now[name]])) as Record<
    C,
    Tri
  >;
}

const sameStandings = (a: Readonly<Record<string, Tri>>, b: Readonly<Record<string, Tri>>): boolean =>
  Object.entries(a).every(([name, tri]) => b[name] === tri);

async function readCapabilities(role: PluginRole, ask: Ask): Promise<Capabilities | { readonly failure: CallFailure }> {
  const announced = await ask("GetPluginCapabilities");
  if (announced.outcome !== "done") return { failure: announced.failure };

  const plugin = announcedCaps(pluginCaps, announced.value.capabilities.flatMap(pluginCapNames));
  const onController = role !== "node";
  const onNode = role !== "controller";
  const controller = await family(ask, "ControllerGetCapabilities", controllerCaps, controllerNames, {
    offered: onController ? plugin.CONTROLLER_SERVICE : "no",
  });
  const group = await family(ask, "GroupControllerGetCapabilities", groupCaps, groupNames, {
    offered: onController ? plugin.GROUP_CONTROLLER_SERVICE : "no",
  });
  const node = await family(ask, "NodeGetCapabilities", nodeCaps, nodeNames, { offered: onNode ? "yes" : "no" });

  return { plugin, controller, node, group };
}

type CapabilityMethod = "ControllerGetCapabilities" | "GroupControllerGetCapabilities" | "NodeGetCapabilities";

async function family<M extends CapabilityMethod, C extends string>(
  ask: Ask,
  method: M,
  names: readonly C[],
  namesIn: (response: ResponseOf<M>) => string[],
  { offered }: { readonly offered: Tri },
): Promise<Record<C, Tri>> {
  if (offered === "no") return allCaps(names, "no");
  const answer = await ask(method);
  if (answer.outcome === "done") return announcedCaps(names, namesIn(answer.value));
  // Not implemented means none. Anything else means that nobody knows, and a gap in the dark is not taken for a "no".
  return allCaps(names, answer.failure.code === "UNIMPLEMENTED" ? "no" : "unknown");
}

async function readNodeInfo(ask: Ask): Promise<PluginNodeInfo | { failure: CallFailure } | undefined> {
  const answer = await ask("NodeGetInfo");
  if (answer.outcome === "done") {
    const { nodeId, maxVolumesPerNode, accessibleTopology } = answer.value;
    const maxVolumes = wholeNumber(maxVolumesPerNode);
    return { nodeId, maxVolumes, topology: accessibleTopology?.segments ?? {} };
  }
  // Only plugins that attach or have a topology must implement it; the others have nothing to say.
  return answer.failure.code === "UNIMPLEMENTED" ? undefined : { failure: answer.failure };
}

/** Number → name; what this version of CSI does not name is an empty string, which nobody asks for. */
const nameIn =
  (type: Readonly<Record<string, number>>) =>
  (value: number): string =>
    Object.keys(type).find((name) => type[name] === value && value > 0) ?? "";

const serviceName = nameIn(ServiceType);
const expansionName = nameIn(ExpansionType);
const controllerName = nameIn(ControllerType);
const groupName = nameIn(GroupType);
const nodeName = nameIn(NodeType);

function pluginCapNames(capability: ResponseOf<"GetPluginCapabilities">["capabilities"][number]): string[] {
  const { service, volumeExpansion } = capability;
  return [
    ...(service === undefined ? [] : [serviceName(service.type)]),
    ...(volumeExpansion === undefined ? [] : [`VOLUME_EXPANSION_${expansionName(volumeExpansion.type)}`]),
  ];
}

function controllerNames({ capabilities }: ResponseOf<"ControllerGetCapabilities">): string[] {
  return capabilities.map(({ rpc }) => controllerName(rpc?.type ?? 0));
}

function groupNames({ capabilities }: ResponseOf<"GroupControllerGetCapabilities">): string[] {
  return capabilities.map(({ rpc }) => groupName(rpc?.type ?? 0));
}

function nodeNames({ capabilities }: ResponseOf<"NodeGetCapabilities">): string[] {
  return capabilities.map(({ rpc }) => nodeName(rpc?.type ?? 0));
}
