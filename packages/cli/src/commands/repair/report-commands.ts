import { sizeWords } from "@holdfast/model/size";
import {
  ListStuckResponse,
  type Orphan,
  OrphanKind,
  ScanOrphansResponse,
  type Stuck,
} from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { startProgress } from "../../frame/progress.ts";
import { tableText } from "../../frame/tables.ts";
import { enumWords } from "../../words/enum-words.ts";
import { ago } from "../../words/moment.ts";
import { allPages, pageSize } from "../all-pages.ts";
import { optionWords } from "../option-words.ts";
import { lastErrorText } from "../resource-words.ts";
import { outcomeText } from "./repair-verb.ts";

const orphanKinds = enumWords<OrphanKind>(OrphanKind, "ORPHAN_KIND_");

const orphanTable = (orphans: readonly Orphan[], now: number): string =>
  orphans.length === 0
    ? "no orphan\n"
    : tableText(
        [
          { title: "ID", of: ({ id }) => id || "-" },
          { title: "KIND", of: ({ kind }) => orphanKinds.of(kind) },
          { title: "PLUGIN", of: ({ plugin }) => plugin || "-" },
          { title: "WHAT", of: ({ externalId, path, volume }) => externalId || path || volume || "-" },
          { title: "NODE", of: ({ node, driverNodeId }) => node || driverNodeId || "-" },
          { title: "SIZE", of: ({ sizeBytes }) => sizeWords(sizeBytes) },
          { title: "KNOWN FOR", of: ({ foundAt }) => ago(foundAt, now) },
          { title: "DETAIL", of: ({ detail }) => detail || "-" },
        ],
        orphans,
      );

const scanOrphans: Command = {
  path: ["repair", "scan"],
  summary: "look for what has no owner: storage, attachments, mounts, records",
  description: "Removes nothing: `repair remove-orphan` approves one at a time.",
  options: [
    { flags: "--kind <kind>", help: "only this kind; may be repeated", many: true, completes: orphanKinds.words },
    { flags: "--plugin <plugin>", help: "only this plugin; may be repeated", many: true, completes: "plugin" },
    { flags: "--node <node>", help: "only this node; may be repeated", many: true, completes: "node" },
  ],
  examples: [{ line: "holdfast repair scan --kind storage", says: "what is paid for and used by nobody" }],
  async run(context, input) {
    const { clients, io, out } = context;
    const progress = startProgress(io, out.json);
    const orphans: Orphan[] = [];
    const gaps: string[] = [];
    let ending = "";
    const request = {
      kinds: optionWords("--kind", orphanKinds, input.list("kind")),
      plugins: [...input.list("plugin")],
      nodes: [...input.list("node")],
    };
    try {
      for await (const message of clients.repair.scanOrphans(request, { signal: io.signal })) {
        if (out.json) out.line(shown("holdfast.v1.ScanOrphansResponse", ScanOrphansResponse, message), () => "");
        const { orphan, gap, progress: seen, outcome } = message;
        if (orphan !== undefined) orphans.push(orphan);
        if (gap !== undefined) gaps.push(`could not look at ${gap.node || gap.plugin}: ${lastErrorText(gap.error)}\n`);
        if (seen !== undefined) progress.say(`${seen.plugin}: ${seen.entries} entries, ${seen.pages} pages`);
        if (outcome !== undefined && !outcome.dryRun && outcome.auditId !== "") ending = outcomeText(context, outcome);
      }
    } finally {
      progress.end();
    }
    if (!out.json) io.stdout.write([orphanTable(orphans, io.now()), ...gaps, ending].join(""));
  },
};

const listStuck: Command = {
  path: ["repair", "stuck"],
  summary: "list everything that cannot go on by itself",
  options: [
    { flags: "-A, --all-namespaces", help: "of every namespace" },
    { flags: "--plugin <plugin>", help: "only of this plugin", completes: "plugin" },
    { flags: "--node <node>", help: "only on this node", completes: "node" },
  ],
  examples: [{ line: "holdfast repair stuck -A", says: "what waits for a person, how long, and what clears it" }],
  async run({ clients, settings, out, io }, input) {
    const request = {
      namespace: input.flag("all-namespaces") ? "" : settings.namespace,
      plugin: input.text("plugin") ?? "",
      node: input.text("node") ?? "",
    };
    const stuck: Stuck[] = [];
    for await (const page of allPages((pageToken) => clients.repair.listStuck({ ...request, pageSize, pageToken })))
      stuck.push(...page.stuck);
    out.answer(shown("holdfast.v1.ListStuckResponse", ListStuckResponse, { stuck, nextPageToken: "" }), () =>
      stuck.length === 0
        ? "nothing is stuck\n"
        : tableText(
            [
              { title: "VOLUME", of: ({ namespace, volume }) => (namespace === "" ? "-" : `${namespace}/${volume}`) },
              { title: "WORKLOAD", of: ({ workload }) => workload || "-" },
              { title: "NODE", of: ({ node }) => node || "-" },
              { title: "STATE", of: ({ state }) => state },
              { title: "REASON", of: ({ blocked }) => blocked?.reason ?? "-" },
              { title: "SINCE", of: ({ blocked }) => ago(blocked?.since, io.now()) },
              { title: "CLEAR WITH", of: ({ blocked }) => blocked?.clearWith || "-" },
            ],
            stuck,
          ),
    );
  },
};

export const reportCommands: readonly Command[] = [scanOrphans, listStuck];
