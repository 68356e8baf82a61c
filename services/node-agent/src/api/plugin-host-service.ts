/** What a runner that starts plugins asks of this host. */
import type { PluginAdmission } from "@holdfast/csi/plugin-admission";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  PluginHostServiceDefinition,
  WatchInstancesResponse,
} from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { type DeepPartial, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { Logger } from "@holdfast/shared/log/logger";
import { instanceFingerprint } from "../plugins/fingerprint.ts";
import type { InstanceBoard } from "../plugins/host/instance-board.ts";
import type { PluginHost } from "../plugins/host/plugin-host.ts";
import {
  instanceFrom,
  instanceMessage,
  preparedMessage,
  stepMessage,
  stopFrom,
  whichFrom,
} from "./plugin-host-convert.ts";

export interface PluginHostServiceOptions {
  readonly node: string;
  readonly host: Pick<PluginHost, "prepare" | "find" | "supervise" | "stop" | "connectionOf">;
  readonly board: Pick<InstanceBoard, "list" | "feed">;
  readonly admission: Pick<PluginAdmission, "accept">;
  readonly rootDir: string;
  readonly log: Logger;
  /** Of this run of the agent: resume tokens of another one mean nothing here. */
  readonly run: string;
}

/** Whoever may start programs on the host; controllers and other nodes have no business with it. */
const runners: Readonly<Record<Identity["role"], boolean>> = {
  local: true,
  anonymous: true,
  scheduler: true,
  operator: true,
  controller: false,
  node: false,
  monitor: false,
};

const mostPerPage = 500;
const usualPerPage = 100;

export function createPluginHostService(
  options: PluginHostServiceOptions,
): Implementation<typeof PluginHostServiceDefinition> {
  const { node, host, board, admission, rootDir, run, log } = options;

  const allowed = ({ identity }: CallContext): void => {
    if (runners[identity.role]) return;
    const message = `the plugins of node ${node} are run from the host itself, not by a ${identity.role}`;
    throw new HoldfastError({ kind: "permission", reason: "PERMISSION_DENIED", message });
  };

  const tokenOf = (position: number): string => `${run}.${position}`;
  const positionIn = (token: string): number => {
    const [of, number] = [token.slice(0, token.lastIndexOf(".")), token.slice(token.lastIndexOf(".") + 1)];
    // No place of this run's: what lies between is not known, which is what a trimmed log says.
    return of === run && /^\d{1,15}$/.test(number) ? Number(number) : -1;
  };

  return {
    async preparePlugin(request, context) {
      allowed(context);
      const instance = instanceFrom(request);
      const socket = await host.prepare(instance);
      return preparedMessage(instance, { socket, rootDir });
    },

    async *supervisePlugin(request, context) {
      allowed(context);
      const { allocation, plugin } = whichFrom(request);
      const instance = host.find(allocation, plugin);
      const steps = host.supervise(instance, context.signal);
      for await (const step of steps) {
        const connection = host.connectionOf(instance);
        yield stepMessage(step, connection && instanceFingerprint(connection, true));
      }
    },

    async stopPlugin(request, context) {
      allowed(context);
      const { stopped, calls } = await host.stop(stopFrom(request), context.signal);
      return { stopped, calls: [...calls] };
    },

    async acceptPlugin({ plugin, socket, reason }, context) {
      allowed(context);
      const places = await admission.accept({ plugin, socketPath: socket, reason });
      log.warn("a person let a plugin have its name at a socket", { plugin, socket, reason, who: context.identity });
      return { sockets: places.map((place) => place.socket) };
    },

    async listInstances({ plugin, pageSize, pageToken }, context) {
      allowed(context);
      const after = pageToken === "" ? "" : Buffer.from(pageToken, "base64url").toString("utf8");
      if (pageSize < 0) throw invalidArgument([{ field: "page_size", description: "is negative" }]);
      const found = board.list().filter((view) => (plugin === "" || view.plugin === plugin) && view.key > after);
      const most = pageSize === 0 ? usualPerPage : Math.min(pageSize, mostPerPage);
      const page = found.slice(0, most);
      const last = page.at(-1);
      const more = found.length > page.length && last !== undefined;
      return {
        instances: page.map(instanceMessage),
        nextPageToken: more ? Buffer.from(last.key, "utf8").toString("base64url") : "",
      };
    },

    async *watchInstances({ plugin, resumeToken }, context) {
      allowed(context);
      const wanted = (name: string): boolean => plugin === "" || name === plugin;
      const { feed } = board;
      let since = feed.position();
      if (resumeToken === "") {
        // Read in one turn with the position: nothing is missed, and nothing told twice.
        const existing = board.list().filter((view) => wanted(view.plugin));
        const resume = tokenOf(since);
        const kind = WatchKind.WATCH_KIND_EXISTING;
        // Without a token: whoever has seen a part of what exists has to begin again.
        for (const view of existing) yield { kind, instance: instanceMessage(view) };
        yield { kind: WatchKind.WATCH_KIND_SYNCED, resumeToken: resume } satisfies DeepPartial<WatchInstancesResponse>;
      } else {
        since = positionIn(resumeToken);
        feed.check(since);
      }
      for await (const { position, item } of feed.after(since, context.signal)) {
        if (!wanted(item.instance.plugin)) continue;
        const kind = item.gone ? WatchKind.WATCH_KIND_REMOVED : WatchKind.WATCH_KIND_CHANGED;
        yield { kind, instance: instanceMessage(item.instance), resumeToken: tokenOf(position) };
      }
    },
  };
}
