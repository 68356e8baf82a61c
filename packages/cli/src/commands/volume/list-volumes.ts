import { ListVolumesResponse } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { shown } from "../../frame/output.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { labelsOf, optionWords } from "../option-words.ts";
import { volumeColumns, volumeStates } from "./volume-words.ts";

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
    ...listOptions,
  ],
  examples: [
    { line: "holdfast volume list", says: "all of the namespace" },
    { line: "holdfast volume list -A --blocked", says: "what is stuck, anywhere" },
    { line: "holdfast volume list -o wide", says: "with the calls of plugins that take long" },
    { line: "holdfast volume list -o columns=id,use -w", says: "who uses what, again whenever it has changed" },
  ],
  async run(context, input) {
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      idPrefix: input.optionalArg("prefix") ?? "",
      plugin: input.text("plugin") ?? "",
      node: input.text("node") ?? "",
      states: optionWords("--state", volumeStates, input.list("state")),
      labels: labelsOf("--label", input.list("label")),
      blocked: input.flag("blocked"),
    };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.volumes.listVolumes({ filter, pageSize, pageToken }),
          ({ volumes }) => volumes,
        ),
      answer: (volumes) =>
        shown("holdfast.v1.ListVolumesResponse", ListVolumesResponse, { volumes: [...volumes], nextPageToken: "" }),
      columns: (now) => volumeColumns(now, filter.namespace === ""),
      name: ({ id }) => id,
      none: "no volume\n",
    });
  },
};
