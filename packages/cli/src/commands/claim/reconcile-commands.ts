import {
  GetListTokenResponse,
  ReconcileWorkloadsResponse,
  type StaleClaim,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { shown } from "../../frame/output.ts";
import { tableText } from "../../frame/tables.ts";
import { ago } from "../../words/moment.ts";
import { recordedReasonOption, usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitReleased, type ReleasedWorkload } from "./await-claims.ts";
import { claimStates } from "./claim-words.ts";
import { readLiveList } from "./live-list.ts";

export const listTokenForReconcile: Command = {
  path: ["claim", "list-token"],
  summary: "name this moment, for `claim reconcile`",
  description: "A claim that is made after it is younger than every list of workloads that is made after it.",
  examples: [{ line: "holdfast claim list-token", says: "before the scheduler lists what it runs" }],
  async run({ clients, out }) {
    const answer = await clients.claims.getListToken({});
    out.answer(shown("holdfast.v1.GetListTokenResponse", GetListTokenResponse, answer), () => `${answer.listToken}\n`);
  },
};

interface Scope {
  readonly node: string;
  readonly namespace: string;
}

const scopeOf = ({ settings }: Context, input: Input): Scope => {
  const node = input.text("node") ?? "";
  if (!input.flag("all-namespaces")) return { node, namespace: settings.namespace };
  if (node === "") throw usage("--all-namespaces is for one node: --node says which");
  return { node, namespace: "" };
};

const lookAt = ({ node, namespace }: Scope): string =>
  [
    "holdfast claim list --state releasing",
    namespace === "" ? "-A" : `--namespace ${namespace}`,
    ...(node === "" ? [] : [`--node ${node}`]),
  ].join(" ");

const byWorkload = (released: readonly StaleClaim[]): readonly ReleasedWorkload[] =>
  [...Map.groupBy(released, ({ namespace, workload }) => `${namespace}/${workload}`).values()].flatMap((claims) =>
    claims.slice(0, 1).map(({ namespace, workload }) => ({
      namespace,
      workload,
      claimUids: claims.map(({ claimUid }) => claimUid),
    })),
  );

const answerText = (
  { io, out }: Context,
  answer: ReconcileWorkloadsResponse,
  scope: Scope,
  waited: boolean,
): string => {
  const { released, releasedCount, dryRun } = answer;
  const more = releasedCount - BigInt(released.length);
  const done = waited && more === 0n ? "released" : "being released";
  return [
    dryRun ? out.warn("nothing was done. It would mean:\n") : "",
    `claims ${dryRun ? "to release" : done}: ${releasedCount}\n`,
    released.length === 0
      ? ""
      : tableText(
          [
            { title: "WORKLOAD", of: ({ workload }) => workload },
            { title: "ALIAS", of: ({ alias }) => alias },
            { title: "VOLUME", of: ({ namespace, volume }) => `${namespace}/${volume}` },
            { title: "NODE", of: ({ node }) => node },
            { title: "FOUND", of: ({ state }) => claimStates.of(state) },
            { title: "CREATED", of: ({ createdAt }) => ago(createdAt, io.now()) },
          ],
          released,
        ),
    more === 0n ? "" : `and ${more} more${dryRun ? "" : `: ${lookAt(scope)}`}\n`,
    `left alone: ${answer.liveCount} of live workloads, ${answer.youngerCount} younger than the token, ${answer.releasingCount} released before\n`,
  ].join("");
};

export const reconcileClaims: Command = {
  path: ["claim", "reconcile"],
  summary: "release the claims of workloads that the scheduler no longer knows",
  description:
    "For a scheduler that lost its memory. In this order: `claim list-token`; the scheduler's own list of every workload that may still run in the scope; this command with both, with --dry-run first. Released are the claims of the namespace, or of it on one node, that are older than the token and whose workload is not in the list. A volume in use is not pulled away: the command then says who holds it.",
  options: [
    { flags: "--token <token>", help: "from `claim list-token`, taken before the list was made", required: true },
    {
      flags: "--live <file>",
      help: "the list, one workload or namespace/workload a line; - reads standard input",
      completes: "file",
    },
    { flags: "--none-live", help: "in place of a list: no workload runs there any more" },
    { flags: "--node <node>", help: "only on this node", completes: "node" },
    { flags: "-A, --all-namespaces", help: "of every namespace; needs --node" },
    recordedReasonOption,
    { flags: "--dry-run", help: "say what would be released, and release nothing" },
    noWaitOption,
  ],
  examples: [
    {
      line: 'holdfast claim reconcile --token "$token" --live running.txt --dry-run',
      says: "token=$(holdfast claim list-token), then the scheduler wrote running.txt: what is left over?",
    },
    {
      line: 'holdfast claim reconcile --token "$token" --node node-a -A --none-live',
      says: "the host was emptied: give back all that was claimed there",
    },
  ],
  async run(context, input) {
    const scope = scopeOf(context, input);
    const file = input.text("live");
    const noneLive = input.flag("none-live");
    if ((file === undefined) !== noneLive) throw usage("either --live with a list, or --none-live");
    const list = file === undefined ? undefined : await readLiveList(context, file);
    if (list?.workloads.length === 0)
      throw usage(`${file} names no workload: if none may still run, say --none-live in place of it`);
    const request = {
      ...scope,
      listToken: input.text("token") ?? "",
      live: [...(list?.workloads ?? [])],
      noneLive,
      dryRun: input.flag("dry-run"),
      reason: input.text("reason") ?? "",
    };
    const ask = () => context.clients.claims.reconcileWorkloads(request);
    const answer = await (list === undefined ? ask() : list.call(ask));
    const wait = input.flag("wait") && !request.dryRun;
    if (wait) {
      const what = `the claims that were released${scope.node === "" ? "" : ` on ${scope.node}`}`;
      await awaitReleased(context, what, byWorkload(answer.released), lookAt(scope));
    }
    context.out.answer(shown("holdfast.v1.ReconcileWorkloadsResponse", ReconcileWorkloadsResponse, answer), () =>
      answerText(context, answer, scope, wait),
    );
  },
};
