import { healthText } from "@holdfast/model/health";
import {
  DrainMode,
  DrainNodeResponse,
  ForgetNodeResponse,
  GetNodeResponse,
  GetNodeStatsResponse,
  ListNodesResponse,
  type Node,
  type PublishedVolumeStats,
  UndrainNodeResponse,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { ago, moment } from "../../words/moment.ts";
import { allPages, allRows, pageSize } from "../all-pages.ts";
import { durationOf, optionWords, recordedReasonOption } from "../option-words.ts";
import { pluginHealths } from "../plugin/plugin-words.ts";
import { blockedDetails, blockedInstances, consequenceText, lastErrorText } from "../resource-words.ts";
import { usageWords } from "../volume/volume-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitDrained, type DrainRequest } from "./await-drained.ts";
import { nodeStates } from "./node-words.ts";

const nodeArg = { name: "node", help: "the node's name", completes: "node" } as const;

const stateWords = (node: Node): string =>
  [nodeStates.of(node.state), node.drained ? "DRAINED" : "", node.blocked === undefined ? "" : "BLOCKED"]
    .filter((word) => word !== "")
    .join(" ");

const slotsWords = (node: Node): string => {
  const plugins = node.attachSlots.map(
    ({ plugin, used, limit }) => `${plugin} ${used} of ${limit === 0n ? "any" : limit}`,
  );
  const pools = node.attachSlots.flatMap(({ pool }) =>
    pool === undefined ? [] : [`pool ${pool.name} ${pool.used} of ${pool.limit} (profile of ${pool.limitBy})`],
  );
  return [...plugins, ...new Set(pools)].join("; ");
};

export const listNodes: Command = {
  path: ["node", "list"],
  summary: "list nodes",
  options: [
    { flags: "--state <state>", help: "only in this state; may be repeated", many: true, completes: nodeStates.words },
    { flags: "--plugin <plugin>", help: "only with an instance of this plugin", completes: "plugin" },
    { flags: "--class <class>", help: "only of this placement class" },
    ...listOptions,
  ],
  examples: [{ line: "holdfast node list", says: "every host whose agent registered" }],
  async run(context, input) {
    const filter = {
      states: optionWords("--state", nodeStates, input.list("state")),
      plugin: input.text("plugin") ?? "",
      placementClass: input.text("class") ?? "",
    };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.nodes.listNodes({ filter, pageSize, pageToken }),
          ({ nodes }) => nodes,
        ),
      answer: (nodes) =>
        shown("holdfast.v1.ListNodesResponse", ListNodesResponse, { nodes: [...nodes], nextPageToken: "" }),
      columns: (now) => [
        { title: "NAME", of: ({ name }) => name },
        { title: "STATE", of: stateWords },
        { title: "SINCE", of: ({ stateSince }) => ago(stateSince, now) },
        { title: "PLUGINS", of: ({ plugins }) => plugins.map(({ plugin }) => plugin).join(",") || "-" },
        { title: "VERSION", of: ({ agentVersion }) => agentVersion },
        { title: "CLASS", wide: true, of: ({ placementClass }) => placementClass || "-" },
      ],
      name: ({ name }) => name,
      none: "no node\n",
    });
  },
};

export const statusNode: Command = {
  path: ["node", "status"],
  summary: "show a node",
  args: [nodeArg],
  options: [oneOption],
  examples: [{ line: "holdfast node status node-a", says: "its plugins, attach slots and identity" }],
  async run({ clients, out, io }, input) {
    const answer = await clients.nodes.getNode({ name: input.arg("node") });
    const { node } = answer;
    const now = io.now();
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetNodeResponse", GetNodeResponse, answer),
      names: [input.arg("node")],
      people: () =>
        node === undefined
          ? ""
          : [
              detailsText([
                ["Node", node.name],
                ["State", `${stateWords(node)}${node.stateMessage === "" ? "" : `: ${node.stateMessage}`}`],
                ["Since", ago(node.stateSince, now)],
                ...blockedDetails(node.blocked, now),
                ["Schedulable", node.schedulable ? "yes" : "no"],
                ["Agent", node.agentVersion],
                ["Machine", node.machineId],
                ["Boot", node.bootId],
                ["Life", node.life],
                ["Epoch", String(node.nodeEpoch)],
                ["Placement class", node.placementClass],
                ["Attach slots", slotsWords(node)],
                ["Last heard", ago(node.lastHeartbeat, now)],
                ["Registered", moment(node.registeredAt)],
              ]),
              node.plugins.length === 0
                ? ""
                : `\n${tableText(
                    [
                      { title: "PLUGIN", of: ({ plugin }) => plugin },
                      { title: "VERSION", of: ({ version }) => version },
                      { title: "HEALTH", of: ({ health }) => pluginHealths.of(health) },
                      { title: "NODE ID", of: ({ nodeId }) => nodeId },
                      {
                        title: "MESSAGE",
                        of: ({ healthMessage, blocked, storageHealth }) =>
                          blocked?.message ?? (healthMessage || healthText(storageHealth) || "-"),
                      },
                    ],
                    node.plugins,
                  )}`,
              blockedInstances(
                node.plugins.map(({ plugin, instanceId, blocked }) => ({
                  name: `${instanceId} of ${plugin}`,
                  blocked,
                })),
                now,
              ),
            ].join(""),
    });
  },
};

export const statsNode: Command = {
  path: ["node", "stats"],
  summary: "show how full each volume on a node is",
  args: [nodeArg],
  examples: [{ line: "holdfast node stats node-a", says: "bytes and inodes of all that is mounted there" }],
  async run({ clients, out, io }, input) {
    const name = input.arg("node");
    const volumes: PublishedVolumeStats[] = [];
    for await (const page of allPages((pageToken) => clients.nodes.getNodeStats({ name, pageSize, pageToken })))
      volumes.push(...page.volumes);
    out.answer(shown("holdfast.v1.GetNodeStatsResponse", GetNodeStatsResponse, { volumes, nextPageToken: "" }), () =>
      volumes.length === 0
        ? "nothing is mounted there\n"
        : tableText(
            [
              { title: "VOLUME", of: ({ namespace, volume }) => `${namespace}/${volume}` },
              { title: "BYTES", of: ({ usage }) => usageWords(usage, "bytes") },
              { title: "INODES", of: ({ usage }) => usageWords(usage, "inodes") },
              { title: "MEASURED", of: ({ measuredAt }) => ago(measuredAt, io.now()) },
              { title: "ERROR", of: ({ error }) => lastErrorText(error) || "-" },
            ],
            volumes,
          ),
    );
  },
};

const remainingText = (answer: DrainNodeResponse): string =>
  answer.remaining.length === 0
    ? "nothing is claimed there any more\n"
    : tableText(
        [
          { title: "WORKLOAD", of: ({ workload }) => workload },
          { title: "ALIAS", of: ({ alias }) => alias },
          { title: "VOLUME", of: ({ namespace, volume }) => `${namespace}/${volume}` },
          { title: "STATE", of: ({ state }) => state },
          { title: "WAITS FOR", of: ({ waitingFor, blocked }) => blocked?.message ?? (waitingFor || "-") },
        ],
        answer.remaining,
      );

export const drainNode: Command = {
  path: ["node", "drain"],
  summary: "grant nothing more on a node, and wait until nothing is claimed there",
  description:
    "Moving the workloads is the scheduler's work. A drained node stays drained until `node undrain`. Nothing is taken from a running workload, also not at the deadline: it only makes the alarm louder.",
  args: [nodeArg],
  options: [
    recordedReasonOption,
    { flags: "--stopped", help: "its workloads have been stopped: release what they had" },
    { flags: "--deadline <duration>", help: "when it should be over; past it the node is BLOCKED" },
    noWaitOption,
    oneOption,
  ],
  examples: [
    { line: 'holdfast node drain node-a --reason "kernel update"', says: "close it and wait until it is empty" },
    { line: "holdfast node drain node-a --stopped", says: "its runner is gone: give back what its workloads had" },
  ],
  async run(context, input) {
    const name = input.arg("node");
    const deadline = input.text("deadline");
    const request: DrainRequest = {
      name,
      reason: input.text("reason") ?? "",
      mode: input.flag("stopped") ? DrainMode.DRAIN_MODE_RELEASE : DrainMode.DRAIN_MODE_UNSPECIFIED,
      ...(deadline === undefined ? {} : { deadline: durationOf("--deadline", deadline) }),
    };
    let answer = await context.clients.nodes.drainNode(request);
    if (answer.remainingCount > 0n && input.flag("wait")) answer = await awaitDrained(context, request);
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.DrainNodeResponse", DrainNodeResponse, answer),
      names: [name],
      people: () => [`node ${name} is drained\n`, remainingText(answer)].join(""),
    });
  },
};

export const undrainNode: Command = {
  path: ["node", "undrain"],
  summary: "let a node have claims again",
  args: [nodeArg],
  options: [recordedReasonOption, oneOption],
  examples: [{ line: "holdfast node undrain node-a", says: "it takes new claims from now on" }],
  async run({ clients, out }, input) {
    const name = input.arg("node");
    const answer = await clients.nodes.undrainNode({ name, reason: input.text("reason") ?? "" });
    answerOne(out, input, {
      answer: shown("holdfast.v1.UndrainNodeResponse", UndrainNodeResponse, answer),
      names: [name],
      people: () => `node ${name} takes new claims\n`,
    });
  },
};

export const forgetNode: Command = {
  path: ["node", "forget"],
  summary: "remove a node that will never come back and that holds nothing",
  args: [nodeArg],
  options: [recordedReasonOption, { flags: "--dry-run", help: "say what would happen, and do nothing" }],
  examples: [{ line: "holdfast node forget node-a --dry-run", says: "what would it mean?" }],
  async run({ clients, out }, input) {
    const request = { name: input.arg("node"), reason: input.text("reason") ?? "", dryRun: input.flag("dry-run") };
    const answer = await clients.nodes.forgetNode(request);
    out.answer(shown("holdfast.v1.ForgetNodeResponse", ForgetNodeResponse, answer), () =>
      [
        request.dryRun ? "nothing was done; it would mean:\n" : "",
        request.dryRun || answer.absent ? "" : `node ${request.name} is forgotten\n`,
        consequenceText(answer.consequence),
      ].join(""),
    );
  },
};
