/**
 * Follows drains: releases what a node had whose workloads were stopped, and tells of drains that take too long.
 *
 * K1 Only the stored drain is followed, so that a restart goes on where it was. K2 A claim that waits for the node is ended before any
 * that is there is released. K3 Nothing is forced: a release is only asked for, and time only makes the alarm louder. K4 A set of
 * claims is let go in one commit, so that whoever opens the node again between two finds none of which a part is left. K5 A release is
 * stored only over the very record of the node that has the drain: another controller may have ended the drain before the claim was made.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Claim } from "../../domain/claim/claim.ts";
import type { NodeDrain } from "../../domain/node/node.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Nodes } from "../../ports.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import { releaseWholeSets } from "../../records/release-whole-sets.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { createNodeFollower, type NodeFollower } from "./node-follower.ts";

export interface DrainKeeperDeps {
  readonly nodes: Nodes;
  readonly records: Pick<VolumeRecords, "list" | "changeMany">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** A drain is overdue now, or is no longer. */
  readonly changed?: (node: string) => void;
}

/** A drain past its time with something still there. */
export interface OverdueDrain {
  readonly since: number;
  readonly remaining: number;
  /** The first of them, for people. */
  readonly first: string;
}

export interface DrainKeeper extends NodeFollower {
  overdue(node: string): OverdueDrain | undefined;
}

/** What only a lost event or a claim of a controller that had not heard of the drain would leave behind. */
const againMs = 5_000;

export const createDrainKeeper = ({ nodes, records, clock, log, signal, changed }: DrainKeeperDeps): DrainKeeper => {
  const late = new Map<string, OverdueDrain>();

  const inTime = (node: string): void => {
    if (late.delete(node)) changed?.(node);
  };

  const drainOf = (name: string): NodeDrain | undefined => nodes.get(name)?.record.drain;

  const volumesOf = async function* (node: string): AsyncGenerator<VolumeRecord> {
    for await (const { volume } of volumesOnNode(records, node)) yield volume;
  };

  const releaseThose = async (node: string, meant: (claim: Claim) => boolean): Promise<void> => {
    const judged = nodeJudgement(nodes, node);
    const goes = (claim: Claim): boolean => {
      judged.look();
      return claim.node === node && drainOf(node)?.mode === "release" && meant(claim);
    };
    await releaseWholeSets(records, volumesOf(node), goes, undefined, { expects: judged.expects }); // K4, K5
  };

  const judge = async (node: string, { deadline }: NodeDrain): Promise<void> => {
    if (deadline === undefined || clock.now() < deadline) {
      inTime(node);
      return;
    }
    let remaining = 0;
    let first = "";
    for await (const { volume } of volumesOnNode(records, node, true)) {
      const here = Object.values(volume.claims).filter((claim) => claim.node === node && claim.state !== "QUEUED");
      remaining += here.length;
      if (first === "" && here[0] !== undefined)
        first = `volume ${volume.namespace}/${volume.id} of workload ${here[0].workload} (${here[0].state})`;
    }
    if (remaining === 0) {
      inTime(node);
      return;
    }
    if (!late.has(node))
      log.warn("a drain is overdue: claims are still there, and nothing takes them by force", {
        node,
        remaining,
        first,
      });
    const news = !late.has(node);
    late.set(node, { since: late.get(node)?.since ?? deadline, remaining, first });
    if (news) changed?.(node);
  };

  const look = async (node: string): Promise<void> => {
    const drain = drainOf(node);
    if (drain === undefined) {
      inTime(node);
      return;
    }
    if (drain.mode === "release") {
      await releaseThose(node, (claim) => claim.state === "QUEUED"); // K2
      await releaseThose(node, () => true);
    }
    await judge(node, drain);
  };

  const isConcern = (node: string): boolean => drainOf(node) !== undefined;
  const follower = createNodeFollower({ what: "a drain", nodes, isConcern, look, againMs, clock, log, signal }); // K1

  return { ...follower, overdue: (node) => late.get(node) };
};
