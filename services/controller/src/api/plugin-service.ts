import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { checkPlugin } from "../domain/limits.ts";
import type { NodePlugin } from "../domain/node.ts";
import type { Nodes } from "../ports.ts";
import { createChecks, optionalId } from "./check-request.ts";
import { type PluginSighting, pluginMessage } from "./convert-plugin.ts";
import { nextPageToken, pageFrom, questionOf } from "./page-token.ts";
import { unimplemented } from "./unimplemented.ts";

export interface PluginServiceDeps {
  readonly nodes: Pick<Nodes, "list">;
  readonly controllerId: string;
  /** The instances beside this controller. */
  readonly besideController: () => readonly { readonly socket: string; readonly plugin: NodePlugin }[];
}

type PluginService = Implementation<typeof PluginServiceDefinition>;

export const createPluginService = (deps: PluginServiceDeps): PluginService => {
  const { nodes, controllerId, besideController } = deps;

  const sightings = (): ReadonlyMap<string, readonly PluginSighting[]> => {
    const all: PluginSighting[] = [
      ...besideController().map(({ socket, plugin }) => ({ node: "", controllerId, socket, plugin })),
      ...nodes
        .list()
        .flatMap(({ record }) =>
          record.plugins.map((plugin) => ({ node: record.name, controllerId: "", socket: "", plugin })),
        ),
    ];
    return Map.groupBy(all, ({ plugin }) => plugin.name);
  };

  return unimplemented(PluginServiceDefinition, {
    async getPlugin({ name }) {
      const violations = checkPlugin("name", name);
      if (violations.length > 0) throw invalidArgument(violations);
      const found = sightings().get(name);
      if (found === undefined) throw unknownPlugin(name);
      return { plugin: pluginMessage(name, found) };
    },

    async listPlugins(request) {
      const checks = createChecks();
      const node = optionalId("node", request.node, checks);
      const question = questionOf("ListPlugins", node);
      const { size, after = "" } = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const names = [...sightings()]
        .filter(([name, found]) => name > after && (node === "" || found.some((one) => one.node === node)))
        .sort(([a], [b]) => (a < b ? -1 : 1));
      const page = names.slice(0, size);
      const next = names.length > size ? page.at(-1)?.[0] : undefined;
      return {
        plugins: page.map(([name, found]) => pluginMessage(name, found)),
        nextPageToken: nextPageToken(next, question),
      };
    },
  });
};

const unknownPlugin = (plugin: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "PLUGIN_NOT_FOUND",
    message: `no instance of plugin ${plugin} was ever seen; start it beside a controller or on a node, or correct its name`,
    metadata: { plugin },
  });
