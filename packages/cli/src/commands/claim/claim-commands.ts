import { sizeWords } from "@holdfast/model/size";
import {
  type Claim,
  ClaimGoal,
  CreateClaimsRequest,
  CreateClaimsResponse,
  GetClaimResponse,
  HandOverResponse,
  ListClaimsResponse,
  ReleaseClaimsResponse,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { ago, ahead } from "../../words/moment.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { durationOf, optionWords } from "../option-words.ts";
import { blockedDetails, callText, degradedText, lastErrorText } from "../resource-words.ts";
import { accessModes, attachmentModes } from "../volume/volume-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitClaims } from "./await-claims.ts";
import { claimColumns, claimName, claimStates } from "./claim-words.ts";
import { noClaimFailure } from "./no-claim-failure.ts";

const workloadArg = { name: "workload", help: "the workload's id", completes: "workload" } as const;
const nodeOption = { flags: "--node <node>", help: "where the workload runs", completes: "node" } as const;

const claimsTable = ({ io }: Context, claims: readonly Claim[]): string =>
  claims.length === 0 ? "no claim\n" : tableText(claimColumns(io.now()), claims);

const deviceWords = (device: Claim["device"]): string =>
  device?.sizeBytes === undefined ? (device?.path ?? "") : `${device.path}, ${sizeWords(device.sizeBytes)}`;

const activeClaims = async (context: Context, input: Input, claims: readonly Claim[]): Promise<readonly Claim[]> => {
  const [first] = claims;
  if (first === undefined || input.flag("wait") === false) return claims;
  return awaitClaims(context, {
    namespace: first.namespace,
    workload: first.workload,
    claimUids: claims.map(({ uid }) => uid),
    goal: ClaimGoal.CLAIM_GOAL_ACTIVE,
  });
};

/** `data`, or `data=alias`; `:ro` behind it only reads. */
const claimSpec = (text: string) => {
  const readOnly = text.endsWith(":ro");
  const [volume = "", alias = ""] = (readOnly ? text.slice(0, -3) : text).split("=", 2);
  return { volume, alias, readOnly };
};

export const createClaims: Command = {
  path: ["claim", "create"],
  summary: "claim a workload's volumes on a node: all of them or none",
  description:
    "Waits until they are mounted. Name the volumes here, or give a file with the fields of CreateClaimsRequest: there a claim may bring its volume, by a template (docs/claim-volumes.md).",
  args: [
    { ...workloadArg, optional: true },
    { name: "volumes", help: "volume, volume=alias or volume:ro", many: true, optional: true, completes: "volume" },
  ],
  options: [
    nodeOption,
    { flags: "-f, --file <path>", help: "a spec with the whole set; - reads standard input", completes: "file" },
    { flags: "--queue [duration]", help: "wait in the queue of a volume that is held, this long at most" },
    noWaitOption,
    oneOption,
  ],
  examples: [
    { line: "holdfast claim create web-1 data --node node-a", says: "one volume, mounted when the command ends" },
    {
      line: "holdfast claim create web-1 data=db logs:ro --node node-a --queue 10m",
      says: "two, behind whoever holds them",
    },
    { line: "holdfast claim create -f job-1.yaml", says: "as the file says, volumes that come with their claims too" },
  ],
  async run(context, input) {
    const file = input.text("file");
    const queue = input.text("queue");
    const queueing =
      queue === undefined && !input.flag("queue")
        ? undefined
        : { enabled: true, deadline: queue === undefined ? undefined : durationOf("--queue", queue) };
    let answer: CreateClaimsResponse;
    if (file === undefined) {
      answer = await context.clients.claims.createClaims({
        namespace: context.settings.namespace,
        workload: input.optionalArg("workload") ?? "",
        node: input.text("node") ?? "",
        claims: input.args("volumes").map(claimSpec),
        queue: queueing,
      });
    } else {
      const kind = {
        type: "holdfast.v1.CreateClaimsRequest",
        codec: CreateClaimsRequest,
        hidden: ["request_id", "wait_for"],
      };
      const spec = await readSpec(context, kind, file, (json) => ({
        ...(json["namespace"] === undefined ? { namespace: context.settings.namespace } : {}),
        ...(input.optionalArg("workload") === undefined ? {} : { workload: input.arg("workload") }),
        ...(input.text("node") === undefined ? {} : { node: input.text("node") ?? "" }),
      }));
      answer = await spec.call(() =>
        context.clients.claims.createClaims({
          ...spec.request,
          ...(queueing === undefined ? {} : { queue: queueing }),
        }),
      );
    }
    const claims = [...(await activeClaims(context, input, answer.claims))];
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.CreateClaimsResponse", CreateClaimsResponse, { claims }),
      names: claims.map(claimName),
      people: () => claimsTable(context, claims),
    });
  },
};

export const releaseClaims: Command = {
  path: ["claim", "release"],
  summary: "give a workload's volumes back",
  description:
    "Do it when the workload's processes are gone: a volume in use is not pulled away, the command then says who holds it. The same again, days later, is the same answer. A workload that never had a claim is told (exit 3), with names that are near.",
  args: [workloadArg, { name: "aliases", help: "only these; none means all", many: true, optional: true }],
  options: [
    { flags: "--uid <uid>", help: "only this life of the claim; may be repeated", many: true },
    noWaitOption,
    oneOption,
  ],
  examples: [
    { line: "holdfast claim release web-1", says: "all of its volumes, unmounted and detached when the command ends" },
  ],
  async run(context, input) {
    const key = { namespace: context.settings.namespace, workload: input.arg("workload") };
    const goal = ClaimGoal.CLAIM_GOAL_RELEASED;
    const selection = { ...key, aliases: [...input.args("aliases")], claimUids: [...input.list("uid")] };
    const asked = await context.clients.claims.releaseClaims(selection);
    // Released before: they are over, and told as they ended.
    const over = asked.claims.length > 0 ? [] : await awaitClaims(context, { ...selection, goal });
    if (asked.claims.length + over.length === 0) throw await noClaimFailure(context, key.workload, input);
    const claimUids = asked.claims.map(({ uid }) => uid);
    const wait = input.flag("wait") !== false && claimUids.length > 0;
    const claims = wait ? await awaitClaims(context, { ...key, claimUids, goal }) : [...asked.claims, ...over];
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.ReleaseClaimsResponse", ReleaseClaimsResponse, { claims: [...claims] }),
      names: claims.map(claimName),
      people: () => claimsTable(context, claims),
    });
  },
};

export const handOverClaims: Command = {
  path: ["claim", "hand-over"],
  summary: "reserve a workload's volumes for its successor",
  description:
    "The successor is granted them first, as soon as the holder has released. Does not wait: release the holder next.",
  args: [
    { ...workloadArg, name: "from" },
    { name: "to", help: "the successor" },
    { name: "aliases", help: "only these; none means all", many: true, optional: true },
  ],
  options: [
    { ...nodeOption, help: "where the successor will run", required: true },
    { flags: "--deadline <duration>", help: "how long the reservation holds (default 1h)" },
    oneOption,
  ],
  examples: [{ line: "holdfast claim hand-over web-1 web-2 --node node-b", says: "web-2 is next" }],
  async run(context, input) {
    const deadline = input.text("deadline");
    const answer = await context.clients.claims.handOver({
      namespace: context.settings.namespace,
      fromWorkload: input.arg("from"),
      toWorkload: input.arg("to"),
      toNode: input.text("node") ?? "",
      aliases: [...input.args("aliases")],
      deadline: deadline === undefined ? undefined : durationOf("--deadline", deadline),
    });
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.HandOverResponse", HandOverResponse, answer),
      names: answer.claims.map(claimName),
      people: () => claimsTable(context, answer.claims),
    });
  },
};

export const listClaims: Command = {
  path: ["claim", "list"],
  summary: "list claims",
  options: [
    { flags: "-A, --all-namespaces", help: "of every namespace" },
    { flags: "--workload <workload>", help: "only of this workload", completes: "workload" },
    { flags: "--volume <volume>", help: "only to this volume", completes: "volume" },
    { flags: "--node <node>", help: "only on this node", completes: "node" },
    { flags: "--plugin <plugin>", help: "only of this plugin", completes: "plugin" },
    { flags: "--state <state>", help: "only in this state; may be repeated", many: true, completes: claimStates.words },
    { flags: "--blocked", help: "only what cannot go on by itself" },
    ...listOptions,
  ],
  examples: [{ line: "holdfast claim list --node node-a", says: "who uses what there" }],
  async run(context, input) {
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      workload: input.text("workload") ?? "",
      volume: input.text("volume") ?? "",
      node: input.text("node") ?? "",
      plugin: input.text("plugin") ?? "",
      states: optionWords("--state", claimStates, input.list("state")),
      blocked: input.flag("blocked"),
    };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.claims.listClaims({ filter, pageSize, pageToken }),
          ({ claims }) => claims,
        ),
      answer: (claims) =>
        shown("holdfast.v1.ListClaimsResponse", ListClaimsResponse, { claims: [...claims], nextPageToken: "" }),
      columns: claimColumns,
      name: claimName,
      none: "no claim\n",
    });
  },
};

export const statusClaim: Command = {
  path: ["claim", "status"],
  summary: "show one claim",
  args: [
    workloadArg,
    { name: "volume", help: "the volume's id", completes: "volume" },
    { name: "alias", help: "where it is not the volume's id", optional: true },
  ],
  options: [{ flags: "--uid <uid>", help: "this life of it, which may be over" }, oneOption],
  examples: [{ line: "holdfast claim status web-1 data", says: "its record, in full" }],
  async run({ clients, settings, out, io }, input) {
    const volume = input.arg("volume");
    const answer = await clients.claims.getClaim({
      namespace: settings.namespace,
      volume,
      workload: input.arg("workload"),
      alias: input.optionalArg("alias") ?? volume,
      uid: input.text("uid") ?? "",
    });
    const { claim } = answer;
    const now = io.now();
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetClaimResponse", GetClaimResponse, answer),
      names: claim === undefined ? [] : [claimName(claim)],
      people: () =>
        claim === undefined
          ? ""
          : detailsText([
              ["Claim", `${claim.workload}/${claim.alias} to ${claim.namespace}/${claim.volume}`],
              ["Uid", claim.uid],
              ["Node", claim.node],
              ["State", claimStates.of(claim.state)],
              ["Since", ago(claim.stateSince, now)],
              ...blockedDetails(claim.blocked, now),
              ["Waits for", claim.waitingFor],
              ["Call", callText(claim.call, now)],
              ["After", claim.after],
              ["Last error", lastErrorText(claim.lastError)],
              ["Attempts", claim.attempts === 0 ? "" : String(claim.attempts)],
              ["Next try", ahead(claim.nextTry, now)],
              ["Host path", claim.hostPath],
              ["Device", deviceWords(claim.device)],
              [
                "Mode",
                `${attachmentModes.of(claim.attachmentMode)} ${accessModes.of(claim.accessMode)}${claim.readOnly ? " read-only" : ""}`,
              ],
              ["Degraded", degradedText(claim, now)],
              ["Trace", claim.traceId],
            ]),
    });
  },
};
