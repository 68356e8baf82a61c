import type { PluginAdmission } from "@holdfast/csi/plugin-admission";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  Plugin,
  type PluginServiceDefinition,
  type WatchPluginsResponse,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import type { Logger } from "@holdfast/shared/log/logger";
import { checkReason } from "../../commands/node/drain-node.ts";
import { type PluginCommands, validateProfile } from "../../commands/plugin/plugin-commands.ts";
import { everything, isBounded, seesPlugin } from "../../domain/access/caller-scope.ts";
import { checkPlugin, checkSecretRef } from "../../domain/limits.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, optionalId, refuseAll } from "../check-request.ts";
import type { MemoryLog } from "../memory-log.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { watchMemory } from "../watch-memory.ts";
import { pluginMessage, profileFrom } from "./convert-plugin.ts";
import { type PluginCallsView, pluginCallsMessage } from "./convert-plugin-calls.ts";

export interface PluginServiceDeps {
  readonly callsOf: (plugin: string) => PluginCallsView;
  readonly commands: PluginCommands;
  readonly tracing: ApiDeps["tracing"];
  readonly granted: ApiDeps["granted"];
  readonly scopeOf: ApiDeps["scopeOf"];
  /** What changed of plugins lately. */
  readonly changes: MemoryLog;
  readonly admission: Pick<PluginAdmission, "accept">;
  /** Why no identity token can be signed here; undefined: one can. */
  readonly unsigned?: () => Promise<string | undefined>;
  readonly log: Logger;
  /** While thousands of nodes register, a watch tells of a plugin so often and no oftener. */
  readonly rest?: (signal: AbortSignal) => Promise<void>;
}

type PluginService = Implementation<typeof PluginServiceDefinition>;

export const createPluginService = (deps: PluginServiceDeps): PluginService => {
  /** With the count of its volumes, for which the store is asked, and how its calls go. */
  const whole = async (name: string, scope = everything): Promise<Plugin> => {
    const view = deps.commands.view(name);
    if (view === undefined) throw unknownPlugin(name);
    // Both are of all namespaces.
    if (isBounded(scope)) return pluginMessage(view);
    const message = pluginMessage(view, await deps.commands.volumeCount(name));
    return { ...message, calls: pluginCallsMessage(deps.callsOf(name)) };
  };

  /** For those whose profile asks for tokens. */
  const withTokens = async (plugins: readonly Plugin[]): Promise<Plugin[]> => {
    const asking = plugins.some(({ profile }) => (profile?.tokenRequests.length ?? 0) > 0);
    const why = asking ? await deps.unsigned?.() : undefined;
    return plugins.map((plugin) =>
      why === undefined || plugin.profile?.tokenRequests.length === 0
        ? plugin
        : { ...plugin, tokensUnsignedBecause: why },
    );
  };

  const seen = (name: string): Plugin | undefined => {
    const view = deps.commands.view(name);
    return view === undefined ? undefined : pluginMessage(view);
  };

  return {
    async getPlugin({ name }, { identity }) {
      const violations = checkPlugin("name", name);
      if (violations.length > 0) throw invalidArgument(violations);
      const [plugin] = await withTokens([await whole(name, deps.scopeOf(identity))]);
      return { plugin };
    },

    async listPlugins(request, { identity }) {
      const checks = createChecks();
      const node = optionalId("node", request.node, checks);
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListPlugins", node, scope);
      const { size, after = "" } = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const names = deps.commands.names(node).filter((name) => name > after && seesPlugin(scope, name));
      const page = names.slice(0, size);
      const next = names.length > size ? page.at(-1) : undefined;
      const plugins = await withTokens(page.flatMap((name) => seen(name) ?? []));
      return { plugins, nextPageToken: nextPageToken(next, question) };
    },

    async *watchPlugins({ resumeToken: token }, { identity, signal }): AsyncGenerator<WatchPluginsResponse> {
      const scope = deps.scopeOf(identity);
      const messages = watchMemory<Plugin>({
        log: deps.changes,
        question: questionOf("WatchPlugins", {}, scope),
        token,
        keys: () => deps.commands.names("").filter((name) => seesPlugin(scope, name)),
        // Asked each time: a scheduler may lose its grant meanwhile.
        get: (name) => (seesPlugin(deps.scopeOf(identity), name) ? seen(name) : undefined),
        remains: (name, last) => last ?? Plugin.fromPartial({ name }),
        rest: deps.rest,
        signal,
      });
      for await (const { kind, resource, resumeToken } of messages) yield { kind, plugin: resource, resumeToken };
    },

    async setPluginProfile(request, context) {
      const checks = createChecks();
      const { name } = request;
      const profile = profileFrom(request.profile, checks);
      const { nodeHealthSecret: secret } = profile;
      for (const { field, description } of secret === undefined
        ? []
        : checkSecretRef("profile.node_health_secret.secret.ref", secret.ref, secret.namespace, deps.granted))
        checks.complain(field, description);
      const input = { name, profile, expectedRevision: Number(request.expectedRevision) };
      for (const { description } of checkReason(request.reason)) checks.complain("reason", description);
      refuseAll(checks, () => validateProfile(input));
      const why = request.reason === "" ? "SetPluginProfile" : `SetPluginProfile: ${request.reason}`;
      await deps.commands.setProfile(input, callerOf(deps, context, why));
      return { plugin: await whole(name) };
    },

    async acceptPlugin({ plugin, socket, reason }, { identity }) {
      const places = await deps.admission.accept({ plugin, socketPath: socket, reason });
      deps.log.warn("a person let a plugin have its name at a socket", { plugin, socket, reason, who: identity });
      return { sockets: places.map((place) => place.socket) };
    },

    async deletePlugin({ name, node, reason }, { identity }) {
      const violations = checkReason(reason);
      if (violations.length > 0) throw invalidArgument(violations);
      const { deletePlugin, forgetInstance } = deps.commands;
      const removed = node === "" ? await deletePlugin(name) : await forgetInstance(name, node);
      if (!removed) return { absent: true };
      deps.log.info("a person removed a plugin", { plugin: name, node, reason, who: formatIdentity(identity) });
      return { absent: false };
    },
  };
};

const unknownPlugin = (plugin: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "PLUGIN_NOT_FOUND",
    message: `no instance of plugin ${plugin} was ever seen; start it beside a controller or on a node, or correct its name`,
    metadata: { plugin },
  });
