import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { PluginPhase } from "@holdfast/csi/plugin-status";
import type { NodePlugin } from "../domain/node/node.ts";

const healthOf: Readonly<Record<PluginPhase, NodePlugin["health"]>> = {
  ready: "HEALTHY",
  initialising: "INITIALISING",
  connecting: "INITIALISING",
  waiting: "UNHEALTHY",
  unhealthy: "UNHEALTHY",
  quarantined: "UNHEALTHY",
  closed: "UNHEALTHY",
};

const capabilitiesOf = (facts: PluginFacts): NodePlugin["capabilities"] =>
  Object.fromEntries(
    (["plugin", "controller", "node", "group"] as const).flatMap((family) =>
      // What only the other half could tell is not told here.
      family === "node"
        ? []
        : Object.entries(facts[family]).map(([name, standing]) => [`${family}:${name}`, standing] as const),
    ),
  );

/** The instances beside this controller that have told who they are, in the form of those on nodes. */
export const controllerInstances = (
  directory: Pick<PluginDirectory, "list">,
): readonly { readonly socket: string; readonly plugin: NodePlugin }[] =>
  directory.list().flatMap((connection) => {
    const { facts, phase, reason } = connection.status();
    if (facts === undefined) return [];
    const plugin: NodePlugin = {
      name: facts.name,
      version: facts.version,
      instance: connection.socketPath,
      role: "CONTROLLER",
      health: healthOf[phase],
      healthMessage: phase === "ready" ? "" : (reason ?? phase),
      nodeId: "",
      maxVolumes: 0,
      topology: {},
      capabilities: capabilitiesOf(facts),
    };
    return [{ socket: connection.socketPath, plugin }];
  });
