import type { AcceptPluginRequest } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  AcceptPluginResponse,
  DeletePluginResponse,
  GetPluginResponse,
  ListPluginsResponse,
  type Plugin,
  PluginProfile,
  SetPluginProfileResponse,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import type { Settings } from "../../frame/settings.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { recordedReasonOption } from "../option-words.ts";
import { blockedInstances } from "../resource-words.ts";
import { pluginHealths, pluginRoles, supportWords } from "./plugin-words.ts";

export const pluginArg = { name: "plugin", help: "the plugin's name", completes: "plugin" } as const;

const halfWords = (half: Plugin["controller"]): string =>
  half === undefined || half.expected === 0n ? "-" : `${half.healthy} of ${half.expected}`;

const usable = (plugin: Plugin): string => (plugin.schedulable ? "yes" : `no: ${plugin.unschedulableBecause}`);

export const listPlugins: Command = {
  path: ["plugin", "list"],
  summary: "list CSI drivers",
  options: [{ flags: "--node <node>", help: "only with an instance on this node", completes: "node" }, ...listOptions],
  examples: [{ line: "holdfast plugin list", says: "every driver that was seen, and whether it can be used" }],
  async run(context, input) {
    const node = input.text("node") ?? "";
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.plugins.listPlugins({ node, pageSize, pageToken }),
          ({ plugins }) => plugins,
        ),
      answer: (plugins) =>
        shown("holdfast.v1.ListPluginsResponse", ListPluginsResponse, { plugins: [...plugins], nextPageToken: "" }),
      columns: () => [
        { title: "NAME", of: ({ name }) => name },
        { title: "VERSION", of: ({ versions }) => versions.join(",") || "-" },
        { title: "CONTROLLER", of: ({ controller }) => halfWords(controller) },
        { title: "NODE", of: (plugin) => halfWords(plugin.node) },
        { title: "USABLE", of: usable },
      ],
      name: ({ name }) => name,
      none: "no plugin was seen yet\n",
    });
  },
};

const poolWords = ({ profile, attachPoolWith }: Plugin): string =>
  profile === undefined || profile.attachPool === ""
    ? ""
    : `${profile.attachPool}, ${profile.attachPoolLimit} a node, ${attachPoolWith.length === 0 ? "with no other plugin" : `with ${attachPoolWith.join(", ")}`}`;

export const statusPlugin: Command = {
  path: ["plugin", "status"],
  summary: "show a CSI driver: its instances, what it can do, and its profile",
  args: [pluginArg],
  options: [oneOption],
  examples: [{ line: "holdfast plugin status local.holdfast.dev", says: "why can it not be used?" }],
  async run({ clients, out, io }, input) {
    const answer = await clients.plugins.getPlugin({ name: input.arg("plugin") });
    const { plugin } = answer;
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetPluginResponse", GetPluginResponse, answer),
      names: [input.arg("plugin")],
      people: () =>
        plugin === undefined
          ? ""
          : [
              detailsText([
                ["Plugin", plugin.name],
                ["Versions", plugin.versions.join(", ")],
                ["Usable", usable(plugin)],
                ["Controller", halfWords(plugin.controller)],
                ["Node", halfWords(plugin.node)],
                [
                  "Missed",
                  plugin.missed.map((one) => `${one.node} since ${one.since?.toISOString() ?? "?"}`).join(", "),
                ],
                ["Findings", plugin.findings.join("; ")],
                ["Volumes", String(plugin.volumeCount)],
                ["Can", supportWords(plugin.capabilities?.plugin)],
                ["As a controller", supportWords(plugin.capabilities?.controller)],
                ["On nodes", supportWords(plugin.capabilities?.node)],
                ["Calls wait", plugin.calls?.heldBecause ?? ""],
                ["Does not answer", plugin.calls?.silentInstances.join("; ") ?? ""],
                ["Calls at a time", String(plugin.profile?.maxConcurrentCalls ?? "")],
                ["Attaches a node", String(plugin.profile?.maxConcurrentAttachesPerNode ?? "")],
                ["Attach pool", poolWords(plugin)],
                ["Tokens for", (plugin.profile?.tokenRequests ?? []).map(({ audience }) => audience).join(", ")],
                ["No tokens", plugin.tokensUnsignedBecause],
                ["Published again", plugin.profile?.requiresRepublish === true ? "yes" : ""],
              ]),
              plugin.instances.length === 0
                ? ""
                : `\n${tableText(
                    [
                      { title: "INSTANCE", of: ({ fingerprint }) => fingerprint?.instanceId ?? "-" },
                      { title: "AT", of: ({ node, controllerId }) => node || `controller ${controllerId}` },
                      { title: "ROLE", of: ({ fingerprint }) => pluginRoles.of(fingerprint?.role ?? 0) },
                      { title: "HEALTH", of: ({ fingerprint }) => pluginHealths.of(fingerprint?.health ?? 0) },
                      {
                        title: "MESSAGE",
                        of: ({ fingerprint }) => fingerprint?.blocked?.message ?? (fingerprint?.healthMessage || "-"),
                      },
                    ],
                    plugin.instances,
                  )}`,
              blockedInstances(
                plugin.instances.map(({ node, controllerId, fingerprint }) => ({
                  name: `${fingerprint?.instanceId} at ${node || `controller ${controllerId}`}`,
                  blocked: fingerprint?.blocked,
                })),
                io.now(),
              ),
            ].join(""),
    });
  },
};

export const profilePlugin: Command = {
  path: ["plugin", "profile"],
  summary: "replace what is known about a CSI driver, from a spec file",
  description: "The fields are those of PluginProfile (docs/plugin-guide.md). Everything left out has its default.",
  args: [pluginArg, { name: "file", help: "the profile, YAML or JSON; - reads standard input", completes: "file" }],
  options: [recordedReasonOption, oneOption],
  examples: [{ line: "holdfast plugin profile ebs.csi.aws.com profile.yaml", says: "these limits and no others" }],
  async run(context, input) {
    const name = input.arg("plugin");
    const kind = { type: "holdfast.v1.PluginProfile", codec: PluginProfile, hidden: [] };
    const spec = await readSpec(context, kind, input.arg("file"), () => ({}));
    const reason = input.text("reason") ?? "";
    const answer = await spec.call(() =>
      context.clients.plugins.setPluginProfile({ name, profile: spec.request, reason }),
    );
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.SetPluginProfileResponse", SetPluginProfileResponse, answer),
      names: [name],
      people: () => `the profile of ${name} is set\n`,
    });
  },
};

export const deletePlugin: Command = {
  path: ["plugin", "delete"],
  summary: "remove a CSI driver that has no instance and no volume",
  description:
    "With --node the plugin stays, and its instance on that node, which is gone, is missed no more: `expected` counts it no longer.",
  args: [pluginArg],
  options: [
    { flags: "--node <node>", help: "it shall have no instance there", completes: "node" },
    recordedReasonOption,
  ],
  examples: [
    { line: "holdfast plugin delete old.example.com", says: "it would vanish by itself after an hour" },
    { line: "holdfast plugin delete ebs.csi.aws.com --node node-a", says: "nobody misses it there" },
  ],
  async run({ clients, out }, input) {
    const name = input.arg("plugin");
    const node = input.text("node") ?? "";
    const answer = await clients.plugins.deletePlugin({ name, node, reason: input.text("reason") ?? "" });
    const done = node === "" ? `${name} is gone` : `${name} is not missed on ${node}`;
    const nothing =
      node === ""
        ? `no plugin ${name} is known: nothing was removed (holdfast plugin list)`
        : `${name} was not missed on ${node}: nothing was changed (holdfast plugin status ${name})`;
    out.answer(
      shown("holdfast.v1.DeletePluginResponse", DeletePluginResponse, answer),
      () => `${answer.absent ? nothing : done}\n`,
    );
  },
};

export const acceptPlugin: Command = {
  path: ["plugin", "accept"],
  summary: "let a CSI driver have its name at another socket than before",
  description:
    "The name of a driver is bound to the socket, and its owner, of its first incarnation. Another socket that announces the name gets no call (PLUGIN_IMPOSTOR) until a person accepts it here. Look first at what listens there: it is handed the secrets of the driver's volumes. A place that the driver has left is no longer bound then.",
  args: [pluginArg, { name: "socket", help: "the path of the socket, as the message of the quarantine tells it" }],
  options: [
    { flags: "--reason <text>", help: "why, for the log", required: true },
    {
      flags: "--agent <address>",
      help: "the local address of the agent that sees the socket; else the controller sees it",
    },
  ],
  examples: [
    {
      line: "holdfast plugin accept ebs.csi.aws.com /run/holdfast/node-plugins/ebs-2.sock --agent unix:///run/holdfast/agent.sock --reason moved",
      says: "on the host, to its agent",
    },
    {
      line: "holdfast plugin accept ebs.csi.aws.com /run/holdfast/controller-plugins/ebs-2.sock --reason moved",
      says: "to the controller that has the socket beside it",
    },
  ],
  async run({ clients, settings, out }, input) {
    const plugin = input.arg("plugin");
    const request = { plugin, socket: input.arg("socket"), reason: input.text("reason") ?? "" };
    const agent = input.text("agent");
    const answer = await (agent === undefined
      ? clients.plugins.acceptPlugin(request)
      : atAgent(settings, agent, request));
    out.answer(
      shown("holdfast.v1.AcceptPluginResponse", AcceptPluginResponse, answer),
      () => `${plugin} is bound to ${answer.sockets.join(", ")}\n`,
    );
  },
};

const atAgent = async (settings: Settings, address: string, request: DeepPartial<AcceptPluginRequest>) => {
  const { connect } = await import("../../frame/clients.ts");
  const local = await connect({ ...settings, address });
  try {
    return await local.pluginHost.acceptPlugin(request);
  } finally {
    local.close();
  }
};
