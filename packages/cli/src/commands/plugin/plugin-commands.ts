import {
  DeletePluginResponse,
  GetPluginResponse,
  ListPluginsResponse,
  type Plugin,
  PluginProfile,
  SetPluginProfileResponse,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { allPages, pageSize } from "../all-pages.ts";
import { pluginHealths, pluginRoles, supportWords } from "./plugin-words.ts";

export const pluginArg = { name: "plugin", help: "the plugin's name", completes: "plugin" } as const;

const halfWords = (half: Plugin["controller"]): string =>
  half === undefined || half.expected === 0n ? "-" : `${half.healthy} of ${half.expected}`;

const usable = (plugin: Plugin): string => (plugin.schedulable ? "yes" : `no: ${plugin.unschedulableBecause}`);

export const listPlugins: Command = {
  path: ["plugin", "list"],
  summary: "list CSI drivers",
  options: [{ flags: "--node <node>", help: "only with an instance on this node", completes: "node" }],
  examples: [{ line: "holdfast plugin list", says: "every driver that was seen, and whether it can be used" }],
  async run({ clients, out }, input) {
    const plugins: Plugin[] = [];
    const node = input.text("node") ?? "";
    for await (const page of allPages((pageToken) => clients.plugins.listPlugins({ node, pageSize, pageToken })))
      plugins.push(...page.plugins);
    out.answer(shown("holdfast.v1.ListPluginsResponse", ListPluginsResponse, { plugins, nextPageToken: "" }), () =>
      plugins.length === 0
        ? "no plugin was seen yet\n"
        : tableText(
            [
              { title: "NAME", of: ({ name }) => name },
              { title: "VERSION", of: ({ versions }) => versions.join(",") || "-" },
              { title: "CONTROLLER", of: ({ controller }) => halfWords(controller) },
              { title: "NODE", of: (plugin) => halfWords(plugin.node) },
              { title: "USABLE", of: usable },
            ],
            plugins,
          ),
    );
  },
};

export const statusPlugin: Command = {
  path: ["plugin", "status"],
  summary: "show a CSI driver: its instances, what it can do, and its profile",
  args: [pluginArg],
  examples: [{ line: "holdfast plugin status local.holdfast.dev", says: "why can it not be used?" }],
  async run({ clients, out }, input) {
    const answer = await clients.plugins.getPlugin({ name: input.arg("plugin") });
    const { plugin } = answer;
    out.answer(shown("holdfast.v1.GetPluginResponse", GetPluginResponse, answer), () =>
      plugin === undefined
        ? ""
        : [
            detailsText([
              ["Plugin", plugin.name],
              ["Versions", plugin.versions.join(", ")],
              ["Usable", usable(plugin)],
              ["Controller", halfWords(plugin.controller)],
              ["Node", halfWords(plugin.node)],
              ["Volumes", String(plugin.volumeCount)],
              ["Can", supportWords(plugin.capabilities?.plugin)],
              ["As a controller", supportWords(plugin.capabilities?.controller)],
              ["On nodes", supportWords(plugin.capabilities?.node)],
              ["Calls at a time", String(plugin.profile?.maxConcurrentCalls ?? "")],
              ["Attaches a node", String(plugin.profile?.maxConcurrentAttachesPerNode ?? "")],
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
          ].join(""),
    );
  },
};

export const profilePlugin: Command = {
  path: ["plugin", "profile"],
  summary: "replace what is known about a CSI driver, from a spec file",
  description: "The fields are those of PluginProfile (docs/plugin-guide.md). Everything left out has its default.",
  args: [pluginArg, { name: "file", help: "the profile, YAML or JSON; - reads standard input", completes: "file" }],
  examples: [{ line: "holdfast plugin profile ebs.csi.aws.com profile.yaml", says: "these limits and no others" }],
  async run(context, input) {
    const name = input.arg("plugin");
    const kind = { type: "holdfast.v1.PluginProfile", codec: PluginProfile, hidden: [] };
    const spec = await readSpec(context, kind, input.arg("file"), () => ({}));
    const answer = await spec.call(() => context.clients.plugins.setPluginProfile({ name, profile: spec.request }));
    context.out.answer(
      shown("holdfast.v1.SetPluginProfileResponse", SetPluginProfileResponse, answer),
      () => `the profile of ${name} is set\n`,
    );
  },
};

export const deletePlugin: Command = {
  path: ["plugin", "delete"],
  summary: "remove a CSI driver that has no instance and no volume",
  args: [pluginArg],
  examples: [{ line: "holdfast plugin delete old.example.com", says: "it would vanish by itself after a day" }],
  async run({ clients, out }, input) {
    const name = input.arg("plugin");
    const answer = await clients.plugins.deletePlugin({ name });
    out.answer(shown("holdfast.v1.DeletePluginResponse", DeletePluginResponse, answer), () => `${name} is gone\n`);
  },
};
