import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { type PluginCommands, type StoredPlugins, validateProfile } from "../commands/plugin-commands.ts";
import { checkPlugin } from "../domain/limits.ts";
import type { NodePlugin } from "../domain/node.ts";
import type { Nodes } from "../ports.ts";
import { type ApiDeps, callerOf } from "./api-deps.ts";
import { createChecks, optionalId, refuseAll } from "./check-request.ts";
import { type PluginSighting, pluginMessage, profileFrom } from "./convert-plugin.ts";
import { type PluginCallsView, pluginCallsMessage } from "./convert-plugin-calls.ts";
import { nextPageToken, pageFrom, questionOf } from "./page-token.ts";
import { unimplemented } from "./unimplemented.ts";

export interface PluginServiceDeps {
  readonly nodes: Pick<Nodes, "list">;
  readonly controllerId: string;
  /** The instances beside this controller. */
  readonly besideController: () => readonly { readonly socket: string; readonly plugin: NodePlugin }[];
  readonly callsOf: (plugin: string) => PluginCallsView;
  readonly records: StoredPlugins;
  readonly commands: PluginCommands;
  readonly tracing: ApiDeps["tracing"];
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

  const messageOf = (name: string, found: readonly PluginSighting[]) =>
    pluginMessage(name, found, { profile: deps.records.of(name), rev: deps.records.get(name)?.rev ?? 0 });

  const known = (): ReadonlyMap<string, readonly PluginSighting[]> =>
    new Map([...deps.records.list().map(({ record }) => [record.name, []] as const), ...sightings()]);

  return unimplemented(PluginServiceDefinition, {
    async getPlugin({ name }) {
      const violations = checkPlugin("name", name);
      if (violations.length > 0) throw invalidArgument(violations);
      const found = known().get(name);
      if (found === undefined) throw unknownPlugin(name);
      return { plugin: { ...messageOf(name, found), calls: pluginCallsMessage(deps.callsOf(name)) } };
    },

    async listPlugins(request) {
      const checks = createChecks();
      const node = optionalId("node", request.node, checks);
      const question = questionOf("ListPlugins", node);
      const { size, after = "" } = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const names = [...known()]
        .filter(([name, found]) => name > after && (node === "" || found.some((one) => one.node === node)))
        .sort(([a], [b]) => (a < b ? -1 : 1));
      const page = names.slice(0, size);
      const next = names.length > size ? page.at(-1)?.[0] : undefined;
      return {
        plugins: page.map(([name, found]) => messageOf(name, found)),
        nextPageToken: nextPageToken(next, question),
      };
    },

    async setPluginProfile(request, context) {
      const checks = createChecks();
      const { name } = request;
      const profile = profileFrom(request.profile, checks);
      const input = { name, profile, expectedRevision: Number(request.expectedRevision) };
      refuseAll(checks, () => validateProfile(input));
      await deps.commands.setProfile(input, callerOf(deps, context, "SetPluginProfile"));
      return { plugin: messageOf(name, sightings().get(name) ?? []) };
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
