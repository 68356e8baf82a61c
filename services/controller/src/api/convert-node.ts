import type { Blocked } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Node, type NodeFilter, NodeState as WireNodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { type NodeState, nodeStates } from "../domain/node.ts";
import type { NodeView } from "../ports.ts";
import type { Checks } from "./check-request.ts";
import { dateOf, scopeMessage } from "./convert-message.ts";
import { fingerprintMessage } from "./convert-plugin.ts";

/** What is known of a node beside its record. */
export interface NodeRemarks {
  readonly rev: number;
  readonly lastHeartbeat: number | undefined;
  /** Why its agent does not accept work. */
  readonly message: string;
  readonly conflict: { readonly since: number; readonly machineId: string; readonly why: string } | undefined;
}

/** Silence is this controller's own view, so that it is added here and stored nowhere. */
export const nodeState = ({ record, live }: NodeView): NodeState =>
  record.state === "READY" && live === "suspect" ? "SUSPECT" : record.state;

export const nodeStateMessage = (state: NodeState): WireNodeState => WireNodeState[`NODE_STATE_${state}`];

const stateMessage = ({ record, live }: NodeView, { message }: NodeRemarks): string => {
  if (record.state === "FENCING") return "it is being fenced: its volumes are detached";
  if (record.state === "QUARANTINED") return "it was fenced and has to prove that it is empty";
  if (live === "unknown") return "this controller has not heard of it since it started";
  if (live === "alive") return "";
  return message === "" ? "its agent is silent: no new claims; those that it has stay" : message;
};

const conflictMessage = ({ record }: NodeView, conflict: NodeRemarks["conflict"]): Blocked | undefined =>
  conflict === undefined
    ? undefined
    : {
        since: dateOf(conflict.since),
        reason: "NODE_CONFLICT",
        message: `an agent on machine ${conflict.machineId} wants the name ${record.name}: ${conflict.why}`,
        missingProof: "that only one of the two is meant to be this node",
        clearWith: "give one of the two agents another HOLDFAST_NODE, or stop it",
      };

export const nodeMessage = (view: NodeView, remarks: NodeRemarks): Node => {
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
    stateSince: undefined,
    address: record.address,
    agentVersion: record.version,
    plugins: record.plugins.map((plugin) => fingerprintMessage(plugin)),
    verificationScope: scopeMessage(record.verificationScope),
    schedulable: record.state === "READY" && live === "alive",
    drained: false,
    lastHeartbeat: dateOf(remarks.lastHeartbeat),
    blocked: conflictMessage(view, remarks.conflict),
    placementClass: "",
    attachSlots: [],
    registeredAt: dateOf(record.registeredAt),
    revision: BigInt(remarks.rev),
    lastChange: undefined,
  };
};

export interface NodeFilterInput {
  readonly states: readonly NodeState[];
  readonly plugin: string;
}

export const nodeFilterFrom = (filter: NodeFilter | undefined, checks: Checks): NodeFilterInput => ({
  states: (filter?.states ?? []).flatMap((wire, i) => {
    const state = nodeStates.find((known) => nodeStateMessage(known) === wire);
    if (state === undefined) checks.complain(`filter.states[${i}]`, "is no state of a node");
    return state ?? [];
  }),
  plugin: filter?.plugin ?? "",
});

export const fitsNode = ({ states, plugin }: NodeFilterInput, view: NodeView): boolean =>
  (states.length === 0 || states.includes(nodeState(view))) &&
  (plugin === "" || view.record.plugins.some(({ name }) => name === plugin));
