/** Permits on their way to the agents of the world, and what agents are checked for when one arrives. */
import { compareEpochs, oldestEpoch } from "@holdfast/model/epoch";
import type { Permit, PublishAnswer } from "../claim/permit.ts";
import type { CallFate } from "./model-backend.ts";
import type { ModelNode, PermitOrder, PublishFate, ReleaseFate, ReleaseOrder } from "./model-node.ts";
import { violated } from "./world-checks.ts";
import type { WorldRecord } from "./world-record.ts";

/** The way of a message to an agent and of its answer back. */
export const routes = ["direct", "answer-lost", "delayed", "twice"] as const;

export interface Luck {
  readonly call: CallFate;
  readonly late: boolean;
  readonly publish: PublishFate;
  readonly release: ReleaseFate;
  readonly route: (typeof routes)[number];
}

export type Message =
  | { readonly kind: "permit"; readonly node: string; readonly order: PermitOrder }
  | { readonly kind: "release"; readonly node: string; readonly order: ReleaseOrder };

export const lostPermit: PublishAnswer = { kind: "uncertain", reason: "UNAVAILABLE", message: "no answer" };

export interface WorldPermitsDeps {
  readonly record: WorldRecord;
  readonly nodeOf: (name: string) => ModelNode;
  /** Where messages wait that have not arrived yet. */
  readonly underway: Message[];
}

export const createWorldPermits = ({ record, nodeOf, underway }: WorldPermitsDeps) => {
  /** What a fresh order finds at its agent: never locked out by its own floor, and nothing remembered that the floor covers. */
  const checkFloor = (host: ModelNode, order: PermitOrder, answer: PublishAnswer, isNew: boolean): void => {
    if (answer.kind === "refused" && answer.reason === "FLOOR")
      throw violated("I6", `the living grant of ${order.claimUid} is below the floor of ${host.name}`);
    const dead = host.dead(order.volumeUid);
    const living = Object.values(record.current()?.claims ?? {}).flatMap((c) =>
      c.node === host.name && c.epoch !== undefined ? [c.epoch] : [],
    );
    const oldest = oldestEpoch(living);
    if (!isNew || oldest === undefined || answer.kind === "refused" || answer.kind === "not-mounted") return;
    if (dead.some((d) => !d.late && compareEpochs(d.epoch, oldest) < 0))
      throw violated("I6", `the floor of ${host.name} lets its dead epochs grow without end`);
  };

  const handlePermit = (host: ModelNode, order: PermitOrder, luck: Luck, fresh: boolean): PublishAnswer => {
    const isNew = !host.held(order.volumeUid).some((h) => h.claimUid === order.claimUid);
    const answer = host.publish(order, luck.publish);
    if (fresh) checkFloor(host, order, answer, isNew);
    return answer;
  };

  const push = ({ volume, claim, nodeEpoch, epoch, oldestLiveEpoch }: Permit, luck: Luck) => {
    const { uid: claimUid, node, accessMode, attachmentMode, readOnly } = claim;
    const order: PermitOrder = {
      ...{ volumeUid: volume.uid, claimUid, nodeEpoch, epoch, oldestLiveEpoch },
      ...{ accessMode, attachmentMode, readOnly },
    };
    if (luck.route === "delayed" || luck.route === "twice") underway.push({ kind: "permit", node, order });
    return { order, answer: luck.route === "delayed" ? lostPermit : handlePermit(nodeOf(node), order, luck, true) };
  };

  return { handlePermit, push };
};
