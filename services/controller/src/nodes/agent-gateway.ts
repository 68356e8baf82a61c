/**
 * What the controller asks of agents, over the stream that each of them has to this controller at that time.
 *
 * A1 A call without an answer proves nothing: it comes back as uncertain or pending, with the reason. A2 Secrets are read for each push and
 * are gone with it. A3 An inventory that was cut short is none.
 */

import type { Epoch } from "@holdfast/model/epoch";
import type { Vetting } from "@holdfast/model/vetting";
import type { Clock } from "@holdfast/shared/async/clock";
import { isAbort } from "@holdfast/shared/async/signals";
import { fromClientError } from "@holdfast/shared/errors/grpc-status";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition, type InventoryResponse } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createGrpcClient, type GrpcClient } from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { scrub } from "@holdfast/shared/grpc/redact";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway } from "../agent-ports.ts";
import { type BlockedReason, blockedFor } from "../domain/blocked.ts";
import type { Inventory } from "../domain/claim/permit.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { AgentStreams } from "./agent-streams.ts";
import { inventoryVolume, releaseMessage } from "./convert.ts";
import { publishAnswer, releaseAnswer } from "./convert-answers.ts";
import { expandMessage, growAnswer, sampleFrom } from "./convert-figures.ts";
import { createOrderLane, type OrderLane } from "./order-lane.ts";
import type { createPermitWords } from "./permit-words.ts";

export interface AgentGatewayOptions {
  readonly secrets: Pick<Secrets, "resolve">;
  readonly permitWords: ReturnType<typeof createPermitWords>;
  readonly streams: Pick<AgentStreams, "channelTo">;
  readonly identity: Identity;
  readonly log: Logger;
  readonly clock: Clock;
  /** How long an agent may take to stage and publish, or to unpublish and unstage: both calls of the plugin and some time beside. */
  readonly callDeadlineMs?: number;
  readonly inventoryDeadlineMs?: number;
}

export interface NodeAgentGateway extends AgentGateway {
  /** What NodePublishVolume is told of volumes of the plugin, or of that one volume, may be another now. A hint: it never rejects. */
  renew(node: NodeRecord, subject: { readonly plugin: string } | { readonly volumeUid: string }): Promise<void>;
  /** It is no node any more: nothing is kept for it. */
  forget(node: string): void;
}

interface Line {
  readonly client: GrpcClient<typeof AgentServiceDefinition>;
  readonly orders: OrderLane;
}

/** One journal record. */
const promiseDeadlineMs = 30_000;
/** As long as an agent gives a plugin for one volume, and a little. */
const statsDeadlineMs = 35_000;

const vettingMessage = ({ gen, uid }: Vetting) => ({ gen: BigInt(gen), uid });

const orderOf = (verb: string, uid: string, { gen, ctr }: Epoch): string => `${verb} ${uid} ${gen}/${ctr}`;

export const createAgentGateway = (options: AgentGatewayOptions): NodeAgentGateway => {
  const { secrets, permitWords, streams, identity, log, clock } = options;
  const { callDeadlineMs = 300_000, inventoryDeadlineMs = 60_000 } = options;
  const lines = new Map<string, Line>();

  const lineTo = ({ name }: NodeRecord): Line => {
    const known = lines.get(name);
    if (known !== undefined) return known;
    const client = createGrpcClient(AgentServiceDefinition, streams.channelTo(name), {
      log,
      identity,
      defaultDeadlineMs: callDeadlineMs,
    });
    const line = { client, orders: createOrderLane({ node: name, clock }) };
    lines.set(name, line);
    return line;
  };

  /** A1: whatever a call failed with, in words for the record. */
  const unanswered = (node: NodeRecord, error: unknown, sensitive: readonly string[] = []) => {
    const failure = isAbort(error) ? cancelled(error) : fromClientError(error);
    const message = `agent of node ${node.name}: ${scrub(failure.message, sensitive)}`;
    return { reason: failure.reason, message };
  };

  return {
    async publish(node, permit, { signal, attempt, vetting }) {
      let sensitive: readonly string[] = [];
      try {
        const words = await permitWords(permit, attempt); // A2
        sensitive = words.sensitive;
        const { client, orders } = lineTo(node);
        const request = { permit: words.message, vetting: vettingMessage(vetting) };
        const order = orderOf("publish", permit.claim.uid, permit.epoch);
        const response = await orders.run(order, signal, () => client.publish(request, { signal }));
        return publishAnswer(permit.epoch, response, sensitive);
      } catch (error) {
        const lacking = isHoldfastError(error) ? lackingOf[error.reason] : undefined;
        if (!isHoldfastError(error) || lacking === undefined)
          return { kind: "uncertain", ...unanswered(node, error, sensitive) };
        // Nothing was sent, and no repeat helps before somebody has put the secret, or the key, right.
        const { reason, message } = error;
        const { since: _when, ...blocked } = blockedFor(lacking, permit.volume, message, undefined, 0);
        return { kind: "uncertain", reason, message, blocked };
      }
    },

    async release(node, order, { signal, attempt, vetting }) {
      try {
        const { client, orders } = lineTo(node);
        const request = { ...releaseMessage(node.name, order, attempt), vetting: vettingMessage(vetting) };
        const response = await orders.run(orderOf("release", order.claimUid, order.epoch), signal, () =>
          client.release(request, { signal }),
        );
        return releaseAnswer(order.epoch, response);
      } catch (error) {
        return { kind: "pending", blocked: false, ...unanswered(node, error) };
      }
    },

    async expand(node, order, { signal, attempt, vetting }) {
      let sensitive: readonly string[] = [];
      try {
        const { namespace, id: volume, secretRefs } = order.volume;
        const use = { volume, method: "NodeExpandVolume" };
        const values = await secrets.resolve(secretRefs.nodeExpand, namespace, use); // A2
        sensitive = Object.values(values);
        const { client, orders } = lineTo(node);
        const request = {
          ...expandMessage(node.name, order, values, attempt),
          vetting: vettingMessage(vetting),
        };
        const name = `expand ${order.volume.uid}`;
        return growAnswer(await orders.run(name, signal, () => client.expand(request, { signal })), sensitive);
      } catch (error) {
        const lacks = isHoldfastError(error) && lackingOf[error.reason] !== undefined;
        const advice = lacks ? "block" : "again";
        return { kind: "unknown", failure: { ...unanswered(node, error, sensitive), advice } };
      }
    },

    async stats(node, volumeUids, signal) {
      const { client, orders } = lineTo(node);
      const options = { signal, deadlineMs: statsDeadlineMs };
      const { volumes } = await orders.run("stats", signal, () =>
        client.stats({ volumeUids: [...volumeUids] }, options),
      );
      return volumes.map(sampleFrom);
    },

    async promise(node, { gen, uid }, signal) {
      const { client } = lineTo(node);
      const asked = { promisedGen: BigInt(gen), vettingUid: uid };
      const promised = await client.raiseFloor(asked, { signal, deadlineMs: promiseDeadlineMs });
      return {
        vetting: { gen: Number(promised.promisedGen), uid: promised.vettingUid },
        openCalls: promised.openCalls.map(({ plugin, opId, words }) => ({ plugin, opId, words })),
      };
    },

    async inventory(node, signal) {
      const { client } = lineTo(node);
      return await readInventory(node, client.inventory({}, { signal, deadlineMs: inventoryDeadlineMs }));
    },

    async renew(node, subject) {
      const { client } = lineTo(node);
      // One that is not there asks anew when it comes; one of an earlier version has no tokens to renew.
      await client.renew(subject, { deadlineMs: promiseDeadlineMs }).catch(() => undefined);
    },

    forget: (node) => void lines.delete(node),
  };
};

/** What was not to be had before anything was sent, and the block for it. */
const lackingOf: Readonly<Partial<Record<string, BlockedReason>>> = {
  SECRET_NOT_FOUND: "CREDENTIALS_REFUSED",
  SECRETS_UNAVAILABLE: "CREDENTIALS_REFUSED",
  TOKENS_UNSIGNED: "TOKENS_UNSIGNED",
};

const cancelled = (cause: unknown): HoldfastError =>
  new HoldfastError({ kind: "cancelled", reason: "CANCELLED", message: "the call was given up", cause });

/** A3: header first, end last, and as many in between as the end says. */
export const readInventory = async (
  node: Pick<NodeRecord, "name" | "journalUid" | "bootId">,
  chunks: AsyncIterable<InventoryResponse>,
): Promise<Inventory> => {
  const volumes: Inventory["volumes"][number][] = [];
  const orphans: string[] = [];
  let head: Pick<Inventory, "node" | "journalUid" | "nodeEpoch" | "promisedGen"> | undefined;
  let bootId = "";
  let complete = false;
  for await (const { header, volume, orphan, end } of chunks) {
    if (header !== undefined) {
      const promisedGen = Number(header.promisedGen);
      head = {
        node: header.node,
        journalUid: header.journalUid,
        nodeEpoch: Number(header.nodeEpoch),
        ...(promisedGen === 0 ? {} : { promisedGen }),
      };
      bootId = header.bootId;
    }
    if (volume !== undefined) volumes.push(inventoryVolume(volume));
    if (orphan !== undefined) orphans.push(orphan.path);
    if (end !== undefined) complete = end.volumes === volumes.length && end.orphans === orphans.length;
  }
  if (head === undefined || !complete)
    throw new HoldfastError({
      kind: "unavailable",
      reason: "UNAVAILABLE",
      message: `the inventory of node ${node.name} was cut short; it is asked for again`,
      metadata: { node: node.name },
    });
  if (head.node !== node.name)
    throw new HoldfastError({
      kind: "precondition",
      reason: "NODE_MISMATCH",
      message: `node ${head.node} answered on the stream of node ${node.name}; its agent has to register again`,
      metadata: { node: head.node, wanted: node.name },
    });
  // What another life holds says nothing of what the registered life has mounted.
  if (head.journalUid !== node.journalUid || bootId !== node.bootId)
    throw new HoldfastError({
      kind: "precondition",
      reason: "NODE_PENDING",
      message: `another life (boot ${bootId}, journal ${head.journalUid}) answered on the stream of node ${node.name}; its inventory is not believed before it is registered`,
      metadata: { node: node.name },
    });
  return { ...head, volumes, orphans };
};
