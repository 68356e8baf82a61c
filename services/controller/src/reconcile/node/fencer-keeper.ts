/**
 * Asks the fencer about nodes that are silent and hold volumes whose policy wants that, and fences them on its evidence.
 *
 * FP1 Time only decides when the fencer is asked. Its evidence decides, or nothing does (I7).
 * FP2 A node is asked about only if every volume that is claimed there has the policy: WAIT is a promise that only a person breaks.
 * FP3 One node at a time, each again after a longer pause; and none while no node is heard: the fault is likelier here then.
 * FP4 The node is fenced as it was when the fencer was asked: the same process of its agent, under the same epoch, and still silent.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter } from "@holdfast/shared/async/limiter";
import type { Logger } from "@holdfast/shared/log/logger";
import { isDisproved, isFenced } from "../../domain/node/fence.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { Fencer, Nodes, NodeView, StoreGate } from "../../ports.ts";
import { isSilent } from "../../records/grant-facts.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { createNodeFollower, type NodeFollower } from "./node-follower.ts";

export interface FencerKeeperDeps {
  readonly fencer: Fencer;
  readonly nodes: Nodes;
  readonly records: Pick<VolumeRecords, "list">;
  readonly gate: Pick<StoreGate, "state">;
  /** Rejects when the node is not fenced all the same. */
  readonly fence: (node: NodeRecord, evidence: string) => Promise<unknown>;
  /** How long a node is silent before the fencer is asked. */
  readonly afterMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly changed?: (node: string) => void;
}

export interface FencerKeeper extends NodeFollower {
  /** What came of asking the fencer about the node; empty when there is nothing to tell. */
  says(node: string): string;
}

interface Asked {
  readonly since: number;
  readonly next: number;
  readonly count: number;
}

const againMs = 1_000;
const pauses = { baseMs: 10_000, capMs: 600_000, least: 0.5 };

export const createFencerKeeper = (deps: FencerKeeperDeps): FencerKeeper => {
  const { fencer, nodes, records, gate, fence, afterMs, clock, random, log, signal, changed } = deps;
  const asked = new Map<string, Asked>();
  const told = new Map<string, string>();
  const one = createLimiter({ name: "fencer", limit: 1, maxQueued: Number.POSITIVE_INFINITY }); // FP3

  const tell = (node: string, what: string): void => {
    if ((told.get(node) ?? "") === what) return;
    if (what === "") told.delete(node);
    else told.set(node, what);
    changed?.(node);
  };

  const isMeant = (view: NodeView | undefined): view is NodeView =>
    view !== undefined && isSilent(view) && (!isFenced(view.record) || isDisproved(view.record));

  /** FP2: whether the policy wants it; in words, why not although some of it does. */
  const wanted = async (node: string): Promise<boolean | string> => {
    let fenced = false;
    let waits = "";
    for await (const { volume } of volumesOnNode(records, node)) {
      if (!Object.values(volume.claims).some((claim) => claim.node === node && claim.state !== "QUEUED")) continue;
      if (volume.policy.nodeLoss === "fence") fenced = true;
      else waits ||= volumeKey(volume);
    }
    if (!fenced) return false;
    return waits === "" || `volume ${waits} is claimed there, and its policy is to wait; holdfast node fence ${node}`;
  };

  const ask = async ({ record }: NodeView, before: Asked): Promise<void> => {
    const { name: node, machineId, bootId, nodeEpoch } = record;
    const answer = await fencer.ask({ node, machineId, bootId, nodeEpoch }, signal);
    const count = before.count + 1;
    const pause = backoffDelay(before.count, pauses, random());
    asked.set(node, { since: before.since, next: clock.monotonic() + pause, count });
    const missed = (why: string): void => {
      tell(node, `the fencer was asked ${count} times, and gave no evidence that it is off: ${why}`);
      log.warn("a node that is silent was not fenced; the fencer is asked again", { node, asked: count, why });
    };
    if (answer.kind === "failed") return missed(answer.why);
    const now = nodes.get(node);
    if (now?.record.instance !== record.instance) return missed("its agent was started anew meanwhile"); // FP4
    try {
      await fence(record, answer.evidence); // FP4
      tell(node, "");
    } catch (error) {
      signal.throwIfAborted();
      missed(error instanceof Error ? error.message : String(error));
    }
  };

  const look = async (node: string): Promise<void> => {
    const view = nodes.get(node);
    if (!isMeant(view)) {
      asked.delete(node);
      return tell(node, "");
    }
    const now = clock.monotonic();
    const before = asked.get(node) ?? { since: now, next: now + afterMs, count: 0 };
    asked.set(node, before);
    if (now < before.next || !gate.state().open) return;
    const heard = nodes.list().some((other) => other.live === "alive" && other.linked !== false);
    if (!heard) return tell(node, "the fencer is not asked, since no node is heard at all"); // FP3
    const policy = await wanted(node);
    if (policy === false) return tell(node, "");
    if (policy !== true) return tell(node, `the fencer is not asked: ${policy}`);
    await one.run(signal, async () => {
      const current = nodes.get(node);
      if (isMeant(current) && current.record.nodeEpoch === view.record.nodeEpoch) await ask(current, before);
    });
  };

  const isConcern = (node: string): boolean => isMeant(nodes.get(node));
  const follower = createNodeFollower({ what: "a silent node", nodes, isConcern, look, againMs, clock, log, signal });
  return { ...follower, says: (node) => told.get(node) ?? "" };
};
