import type { Blocked } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  type AttachSlots,
  DrainMode,
  type DrainNodeResponse,
  DrainStage,
  type Node,
  type NodeFilter,
  type NodeDrain as WireDrain,
  NodeState as WireNodeState,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { DrainNodeInput, DrainView } from "../../commands/node/node-model.ts";
import type { NodePlace, UsedSlots } from "../../commands/node/node-places.ts";
import { type Dispute, disputeBlock } from "../../domain/node/dispute.ts";
import { isFenced } from "../../domain/node/fence.ts";
import { fenceBlock } from "../../domain/node/fence-block.ts";
import { type NodeDrain, type NodeState, nodeStates } from "../../domain/node/node.ts";
import { pendingBlock } from "../../domain/node/pending-life.ts";
import type { NodeView } from "../../ports.ts";
import type { Checks } from "../check-request.ts";
import { blockedMessage, dateOf, lastErrorMessage, scopeMessage } from "../convert-message.ts";
import { fingerprintMessage, poolMessage } from "../plugin/convert-plugin.ts";

/** What is known of a node beside its record. */
export interface NodeRemarks {
  readonly rev: number;
  readonly lastHeard: number | undefined;
  /** How the link ended that this controller had. */
  readonly linkEnd?: { readonly at: number; readonly why: string } | undefined;
  /** Why its agent does not accept work. */
  readonly message: string;
  readonly dispute: Dispute | undefined;
  /** Since when it is in the state that is shown. */
  readonly since?: number | undefined;
  /** What its fence waits for. */
  readonly fenceWaits?: string | undefined;
  /** What came of asking the fencer about it. */
  readonly fencer?: string | undefined;
  readonly overdue?: { readonly since: number; readonly remaining: number; readonly first: string } | undefined;
}

/** SUSPECT is added here, since it is stored nowhere. */
export const nodeState = ({ record, live }: NodeView): NodeState =>
  record.state === "READY" && live === "suspect" ? "SUSPECT" : record.state;

export const nodeStateMessage = (state: NodeState): WireNodeState => WireNodeState[`NODE_STATE_${state}`];

/** A link that is lost is shown at once, by the controller that had it, long before the node is SUSPECT for that. */
const linkMessage = ({ live }: NodeView, { linkEnd }: NodeRemarks): string => {
  const end = linkEnd === undefined ? "" : `link lost since ${new Date(linkEnd.at).toISOString()}: ${linkEnd.why}`;
  if (live !== "suspect")
    return end && `${end}; it is SUSPECT once no controller has had its link for HOLDFAST_LINK_GRACE`;
  const silent = "its agent is silent, and no controller has its link: no new claims; those that it has stay";
  return end === "" ? silent : `${silent}; ${end}`;
};

const fenceMessage = ({ record: { state, fence } }: NodeView, { fenceWaits = "" }: NodeRemarks): string => {
  const what = state === "FENCING" ? "its volumes are taken from it" : "it has to show that it is empty";
  const why =
    fence === undefined
      ? "it was fenced (holdfast audit list -A says why)"
      : `${fence.who} fenced it at ${new Date(fence.since).toISOString()} (${fence.kind}): ${fence.evidence}`;
  const spoke = fence?.spoke === true ? ["its agent was heard since"] : [];
  return [why, ...spoke, what, ...(fenceWaits === "" ? [] : [`it waits for ${fenceWaits}`])].join("; ");
};

const stateMessage = (view: NodeView, remarks: NodeRemarks): string => {
  const { record, live, linked } = view;
  if (isFenced(record)) return fenceMessage(view, remarks);
  if (live === "unknown") return "this controller has not heard of it since it started";
  const unwilling = linked === true ? "its agent does not accept work" : "";
  if (live === "suspect" && linked !== false && (remarks.message || unwilling) !== "")
    return remarks.message || unwilling;
  const drained = record.drain && `drained, so that nothing new is granted there: ${record.drain.reason}`;
  const link = live === "suspect" || linked === false ? linkMessage(view, remarks) : "";
  return [drained, link, remarks.fencer].filter(Boolean).join("; ");
};

const pendingMessage = ({ record: { pending } }: NodeView) =>
  pending === undefined
    ? undefined
    : {
        life: pending.life,
        machineId: pending.machineId,
        bootId: pending.bootId,
        journalUid: pending.journalUid,
        address: "",
        since: dateOf(pending.since),
      };

const overdueMessage = ({ record }: NodeView, overdue: NodeRemarks["overdue"]): Blocked | undefined =>
  overdue === undefined
    ? undefined
    : {
        since: dateOf(overdue.since),
        reason: "DRAIN_OVERDUE",
        message: `its drain should be over, and ${overdue.remaining} claims are still there, the first: ${overdue.first}`,
        missingProof: "that the workloads of these claims have stopped: their release",
        clearWith: `stop the workloads that this shows: holdfast claim list -A --node ${record.name}; and give back what each of them had: holdfast claim release <workload> --namespace <namespace>; or take the drain back: holdfast node undrain ${record.name}`,
      };

const drainModes: Readonly<Record<NodeDrain["mode"], DrainMode>> = {
  wait: DrainMode.DRAIN_MODE_UNSPECIFIED,
  release: DrainMode.DRAIN_MODE_RELEASE,
};

export const drainModeFrom = (wire: DrainMode, checks: Checks): DrainNodeInput["mode"] => {
  if (wire === drainModes.release) return "release";
  if (wire !== drainModes.wait) checks.complain("mode", "is no way to drain that this version knows");
  return "wait";
};

const drainMessage = (drain: NodeDrain | undefined): WireDrain | undefined =>
  drain === undefined
    ? undefined
    : {
        since: dateOf(drain.since),
        reason: drain.reason,
        mode: drainModes[drain.mode],
        deadline: dateOf(drain.deadline),
      };

const drainStages: Readonly<Record<DrainView["stage"], DrainStage>> = {
  CLAIMS: DrainStage.DRAIN_STAGE_CLAIMS,
  PLUGINS: DrainStage.DRAIN_STAGE_PLUGINS,
  DONE: DrainStage.DRAIN_STAGE_DONE,
};

export const remainingMessage = (
  { record }: NodeView,
  { remaining, remainingCount }: Pick<DrainView, "remaining" | "remainingCount">,
): Pick<DrainNodeResponse, "remaining" | "remainingCount"> => ({
  remaining: remaining.map((one) => ({
    namespace: one.namespace,
    volume: one.volume,
    workload: one.workload,
    alias: one.alias,
    claimUid: one.uid,
    state: one.state,
    stateSince: dateOf(one.stateSince),
    waitingFor: one.waitingFor,
    blocked: blockedMessage(one.blocked),
    lastError: lastErrorMessage(one.lastError, { plugin: one.plugin, node: record.name }),
  })),
  remainingCount: BigInt(remainingCount),
});

export const drainViewMessage = (view: DrainView, node: Node): DrainNodeResponse => ({
  node,
  ...remainingMessage(view.node, view),
  stage: drainStages[view.stage],
  queuedCount: BigInt(view.queuedCount),
});

/** On the wire 0 stands for any number. */
const slotsMessage = ({ plugin, used, limit, pool }: UsedSlots): AttachSlots => ({
  plugin,
  used: BigInt(used),
  limit: BigInt(limit === Number.POSITIVE_INFINITY ? 0 : limit),
  pool: pool && poolMessage(pool),
});

export const nodeMessage = (view: NodeView, remarks: NodeRemarks, place: NodePlace): Node => {
  const { record, live } = view;
  return {
    name: record.name,
    machineId: record.machineId,
    bootId: record.bootId,
    journalUid: record.journalUid,
    instance: record.instance,
    nodeEpoch: BigInt(record.nodeEpoch),
    state: nodeStateMessage(nodeState(view)),
    stateMessage: stateMessage(view, remarks),
    stateSince: dateOf(remarks.since),
    address: "",
    agentVersion: record.version,
    plugins: record.plugins.map((plugin) => fingerprintMessage(plugin)),
    verificationScope: scopeMessage(record.verificationScope),
    schedulable: record.state === "READY" && live === "alive" && record.drain === undefined,
    drained: record.drain !== undefined,
    lastHeartbeat: dateOf(remarks.lastHeard),
    blocked:
      blockedMessage(pendingBlock(record)) ??
      blockedMessage(remarks.dispute && disputeBlock(remarks.dispute)) ??
      blockedMessage(fenceBlock(record)) ??
      overdueMessage(view, remarks.overdue),
    placementClass: place.placementClass,
    attachSlots: place.slots.map(slotsMessage),
    registeredAt: dateOf(record.registeredAt),
    revision: BigInt(remarks.rev),
    lastChange:
      record.changedBy === undefined
        ? undefined
        : { who: record.changedBy.who, why: record.changedBy.why, at: dateOf(record.changedBy.at) },
    drain: drainMessage(record.drain),
    life: record.life ?? "",
    pending: pendingMessage(view),
  };
};

export interface NodeFilterInput {
  readonly states: readonly NodeState[];
  readonly plugin: string;
  readonly placementClass: string;
}

export const nodeFilterFrom = (filter: NodeFilter | undefined, checks: Checks): NodeFilterInput => ({
  states: (filter?.states ?? []).flatMap((wire, i) => {
    const state = nodeStates.find((known) => nodeStateMessage(known) === wire);
    if (state === undefined) checks.complain(`filter.states[${i}]`, "is no state of a node");
    return state ?? [];
  }),
  plugin: filter?.plugin ?? "",
  placementClass: filter?.placementClass ?? "",
});

export const fitsNode = ({ states, plugin }: NodeFilterInput, view: NodeView): boolean =>
  (states.length === 0 || states.includes(nodeState(view))) &&
  (plugin === "" || view.record.plugins.some(({ name }) => name === plugin));
