import type { Tri } from "../domain/node.ts";
import type { Nodes } from "../ports.ts";

/**
 * What the node halves of a plugin announce of its controller half. "no" only when every one that told says so: then there is no
 * ControllerPublish to wait for.
 */
export const controllerServiceOnNodes =
  (nodes: Pick<Nodes, "list">) =>
  (plugin: string): Tri => {
    const said = nodes
      .list()
      .flatMap(({ record }) => record.plugins)
      .filter(({ name }) => name === plugin)
      .flatMap(({ capabilities }) => capabilities["plugin:CONTROLLER_SERVICE"] ?? []);
    if (said.includes("yes")) return "yes";
    return said.length > 0 && said.every((one) => one === "no") ? "no" : "unknown";
  };
