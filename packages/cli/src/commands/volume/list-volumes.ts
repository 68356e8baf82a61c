import { ListVolumesResponse, type Volume } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { tableText } from "../../frame/tables.ts";
import { allPages, pageSize } from "../all-pages.ts";
import { isWide, labelsOf, optionWords, wideOption } from "../option-words.ts";
import { volumeColumns, volumeStates, wideColumns } from "./volume-words.ts";

export const listVolumes: Command = {
  path: ["volume", "list"],
  summary: "list volumes",
  args: [{ name: "prefix", help: "only ids that begin like this", optional: true }],
  options: [
    { flags: "-A, --all-namespaces", help: "of every namespace" },
    { flags: "--plugin <plugin>", help: "only of this plugin", completes: "plugin" },
    { flags: "--node <node>", help: "only with a claim or an attachment on this node", completes: "node" },
    {
      flags: "--state <state>",
      help: "only in this state; may be repeated",
      many: true,
      completes: volumeStates.words,
    },
    { flags: "--label <key=value>", help: "only with this label; may be repeated", many: true },
    { flags: "--blocked", help: "only what cannot go on by itself" },
    wideOption,
  ],
  examples: [
    { line: "holdfast volume list", says: "all of the namespace" },
    { line: "holdfast volume list -A --blocked", says: "what is stuck, anywhere" },
    { line: "holdfast volume list -o wide", says: "with the calls of plugins that take long" },
  ],
  async run(context, input) {
    const columns = isWide(input) ? wideColumns : volumeColumns;
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      idPrefix: input.optionalArg("prefix") ?? "",
      plugin: input.text("plugin") ?? "",
      node: input.text("node") ?? "",
      states: optionWords("--state", volumeStates, input.list("state")),
      labels: labelsOf("--label", input.list("label")),
      blocked: input.flag("blocked"),
    };
    const volumes: Volume[] = [];
    for await (const page of allPages((pageToken) =>
      context.clients.volumes.listVolumes({ filter, pageSize, pageToken }),
    ))
      volumes.push(...page.volumes);
    context.out.answer(
      shown("holdfast.v1.ListVolumesResponse", ListVolumesResponse, { volumes, nextPageToken: "" }),
      () => (volumes.length === 0 ? "no volume\n" : tableText(columns(context.io.now()), volumes)),
    );
  },
};
