/** What was done by whom: as the store keeps it, as it happens, and whether the files of the audit are as they were written. */
import type { AuditVerdict, VerifiedTrail } from "@holdfast/shared/audit/verify-audit";
import { EventSeverity } from "@holdfast/shared/gen/holdfast/v1/event";
import { ListAuditResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command } from "../../frame/command.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { shown } from "../../frame/output.ts";
import { tableText } from "../../frame/tables.ts";
import { moment } from "../../words/moment.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { usage } from "../option-words.ts";
import { followEvents, forOption, sinceOption } from "../watch-events.ts";

const listAudit: Command = {
  path: ["audit", "list"],
  summary: "list every override that was ever made",
  options: [
    { flags: "-A, --all-namespaces", help: "of every namespace" },
    { flags: "--volume <volume>", help: "only of this volume", completes: "volume" },
    { flags: "--verb <verb>", help: "only this verb, such as AbandonClaim" },
    ...listOptions,
  ],
  examples: [{ line: "holdfast audit list --volume data", says: "who overrode what, when and why" }],
  async run(context, input) {
    const request = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      volume: input.text("volume") ?? "",
      verb: input.text("verb") ?? "",
    };
    const where =
      request.namespace === ""
        ? ""
        : ` in namespace ${request.namespace}; those of nodes and of the store belong to none: holdfast audit list -A`;
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.repair.listAudit({ ...request, pageSize, pageToken }),
          ({ records }) => records,
        ),
      answer: (records) =>
        shown("holdfast.v1.ListAuditResponse", ListAuditResponse, { records: [...records], nextPageToken: "" }),
      columns: () => [
        { title: "AT", of: ({ at }) => moment(at) },
        { title: "WHO", of: ({ who }) => who },
        { title: "VERB", of: ({ verb }) => verb },
        {
          title: "VOLUME",
          of: ({ namespace, volume }) => (volume === "" ? namespace || "-" : `${namespace}/${volume}`),
        },
        { title: "NODE", of: ({ node }) => node || "-" },
        { title: "REASON", of: ({ reason }) => reason },
        { title: "EVIDENCE", of: ({ evidence }) => evidence || "-" },
      ],
      name: ({ id }) => id,
      none: `no override was made${where}\n`,
    });
  },
};

const followAudit: Command = {
  path: ["audit", "follow"],
  summary: "show each override as it is made",
  description:
    "From now on, or from a token of an earlier line (--json shows it). Ends with Ctrl-C, or after the time given with --for.",
  options: [
    sinceOption,
    forOption,
    { flags: "-A, --all-namespaces", help: "of every namespace, and of nodes and the store, which belong to none" },
    { flags: "--volume <volume>", help: "only of this volume", completes: "volume" },
  ],
  examples: [{ line: "holdfast audit follow -A --json", says: "for a program that keeps it elsewhere" }],
  async run(context, input) {
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      ...{ volume: input.text("volume") ?? "", workload: "", node: "", plugin: "", reasons: [] },
      minimumSeverity: EventSeverity.EVENT_SEVERITY_AUDIT,
    };
    await followEvents(context, input, filter, ({ severity }) => severity === EventSeverity.EVENT_SEVERITY_AUDIT);
  },
};

const failed = (reason: string, message: string, next: readonly string[]): CliFailure =>
  new CliFailure({ exitCode: exitCodes.failed, reason, message, next });

const verifyAuditFiles: Command = {
  path: ["audit", "verify"],
  summary: "check that the files of an audit are as they were written",
  description:
    "Reads them where they lie and asks no controller. An end that was cut off, or a last line that was changed, is found by --head alone: the log of the service tells the hash at each start, stop and new file.",
  args: [{ name: "path", help: "a directory of an audit, or files of it", many: true, completes: "file" }],
  options: [{ flags: "--head <hash>", help: "a line with this hash has to be there" }],
  examples: [
    {
      line: "holdfast audit verify /var/lib/holdfast-controller/audit",
      says: "every trail, from its first line to its last",
    },
  ],
  async run({ io, out }, input) {
    const head = input.text("head");
    if (head !== undefined && !/^[0-9a-f]{64}$/.test(head))
      throw usage(`--head ${head}: has to be 64 hexadecimal digits`);
    let verdict: AuditVerdict;
    try {
      verdict = await io.verifyAudit(input.args("path"), head);
    } catch (error) {
      throw failed("AUDIT_UNREADABLE", error instanceof Error ? error.message : String(error), [
        "run this as the user of the service, or on a copy",
      ]);
    }
    if ("bad" in verdict) {
      const { file, line, reason } = verdict.bad;
      throw failed("AUDIT_BROKEN", `${file}, line ${line}: ${reason}`, [
        "keep the files as they are: what stands before that line holds",
      ]);
    }
    if (verdict.trails.length === 0)
      throw failed("AUDIT_EMPTY", "there is no line of an audit there", [
        "name the directory that HOLDFAST_AUDIT_DIR names",
      ]);
    io.stdout.write(
      out.json ? `${JSON.stringify({ trails: verdict.trails }, undefined, 2)}\n` : trailTable(verdict.trails),
    );
  },
};

const trailTable = (trails: readonly VerifiedTrail[]): string =>
  tableText(
    [
      { title: "TRAIL", of: ({ trail }) => trail || "-" },
      { title: "FILES", of: ({ files }) => `${files}` },
      { title: "LINES", of: ({ count }) => `${count}` },
      { title: "FIRST", of: ({ first }) => `${first}` },
      { title: "LAST", of: ({ head }) => `${head.seq}` },
      { title: "MISSING", of: ({ missing }) => `${missing}` },
      { title: "HEAD", of: ({ head }) => head.hash },
    ],
    trails,
  );

export const auditCommands: readonly Command[] = [listAudit, followAudit, verifyAuditFiles];
