/** Records of nodes as states hold them. Words for a life are made from its parts, so that other names give the same words. */
import type { NodeRecord } from "../../../services/controller/src/domain/node/node.ts";
import type { NodeLife } from "../../../services/controller/src/domain/node/node-life.ts";
import { nodeRecord } from "../../../services/controller/src/domain/testing/record-fixtures.ts";
import { lifeName } from "../../../services/controller/src/nodes/life-name.ts";
import type { NodeView } from "../../../services/controller/src/ports.ts";
import type { Controller, PlainNode } from "./history-types.ts";

const pluginOf = (name: string): NodeRecord["plugins"][number] => ({
  name: "model",
  version: "1",
  instance: "p",
  role: "NODE",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: `id-${name}`,
  maxVolumes: 0,
  topology: {},
  capabilities: {},
});

/** What tells lives apart: readable, and renamed with the node. */
const wordsOf = ({ machineId, bootId, journalUid, lockId = "" }: NodeLife): string =>
  [machineId, bootId, journalUid, lockId].join(" ");

const lifeIn = (words: string): string => {
  const [machineId = "", bootId = "", journalUid = "", lockId = ""] = words.split(" ");
  return lifeName({ machineId, bootId, journalUid, lockId });
};

const wholes = new WeakMap<PlainNode, NodeRecord>();

export const wholeNode = (node: PlainNode): NodeRecord => {
  const known = wholes.get(node);
  if (known !== undefined) return known;
  const { admitted, pending, ...plain } = node;
  const whole = nodeRecord(node.name, {
    ...plain,
    ...(admitted === undefined ? {} : { admitted: lifeIn(admitted) }),
    ...(pending === undefined ? {} : { pending: { ...pending, life: lifeIn(pending.life) } }),
    plugins: [pluginOf(node.name)],
  });
  wholes.set(node, whole);
  return whole;
};

export const plainNode = (record: NodeRecord): PlainNode => {
  const { name, nodeEpoch, state, instance, machineId, bootId, journalUid, lockId, hostIdentity } = record;
  const { linkLost, pending, admitted, speaksFrom, outlived, bootsBefore, fence, forgottenAt } = record;
  return {
    ...{ name, nodeEpoch, state, instance, machineId, bootId, journalUid },
    ...(lockId === undefined ? {} : { lockId }),
    ...(hostIdentity === undefined ? {} : { hostIdentity }),
    ...(linkLost === undefined ? {} : { linkLost: { at: 0 } }),
    ...(pending === undefined ? {} : { pending: { ...pending, life: wordsOf(pending), since: 0 } }),
    ...(admitted === undefined ? {} : { admitted: pendingWords(record, admitted) }),
    ...(speaksFrom === undefined ? {} : { speaksFrom }),
    ...(outlived === undefined ? {} : { outlived }),
    ...(bootsBefore === undefined ? {} : { bootsBefore }),
    ...(fence === undefined ? {} : { fence }),
    ...(forgottenAt === undefined ? {} : { forgottenAt: 0 }),
  };
};

/** A person admits a life that waits: its words stand there. */
const pendingWords = ({ pending }: NodeRecord, admitted: string): string =>
  pending !== undefined && lifeName(pending) === admitted ? wordsOf(pending) : admitted;

/** As the controller sees the node. */
export const viewOf = (node: PlainNode, links: Controller["links"]): NodeView => {
  const linked = links[node.name] === node.instance;
  return {
    record: wholeNode(node),
    linked,
    live: !linked && node.linkLost !== undefined ? "suspect" : "alive",
    rev: 1,
  };
};
