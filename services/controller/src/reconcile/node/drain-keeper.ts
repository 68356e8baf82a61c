/**
 * Follows drains: releases what a node had whose workloads were stopped, and tells of drains that take too long.
 *
 * K1 Only the stored drain is followed, so that a restart goes on where it was. K2 A claim that waits for the node is ended before any
 * that is there is released. K3 Nothing is forced: a release is only asked for, and time only makes the alarm louder. K4 A set of
 * claims is let go in one commit, so that whoever opens the node again between two finds none of which a part is left. K5 A release is
 * stored only over the very record of the node that has the drain: another controller may have ended the drain before the claim was made.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Claim } from "../../domain/claim/claim.ts";
import type { NodeDrain } from "../../domain/node/node.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Nodes } from "../../ports.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import { releaseWholeSets } from "../../records/release-whole-sets.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";

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

export interface DrainKeeper {
  overdue(node: string): OverdueDrain | undefined;
  /** Looks again at every drain until the signal; rejects then. */
  run(): Promise<never>;
  /** What it has begun is over; for tests. */
  idle(): Promise<void>;
}

/** What only a lost event or a claim of a controller that had not heard of the drain would leave behind. */
const againMs = 5_000;

export const createDrainKeeper = ({ nodes, records, clock, log, signal, changed }: DrainKeeperDeps): DrainKeeper => {
  const drained = new Set<string>();
  const late = new Map<string, OverdueDrain>();
  const lanes = createKeyedLanes();
  const running = new Set<Promise<void>>();

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
      drained.delete(node);
      inTime(node);
      return;
    }
    drained.add(node);
    if (drain.mode === "release") {
      await releaseThose(node, (claim) => claim.state === "QUEUED"); // K2
      await releaseThose(node, () => true);
    }
    await judge(node, drain);
  };

  const follow = (node: string): void => {
    if (signal.aborted || lanes.waiting(node) > 0 || (drainOf(node) === undefined && !drained.has(node))) return;
    const task = lanes
      .run(node, signal, () => look(node))
      .catch((error: unknown) => {
        if (!signal.aborted && !isAbort(error))
          log.warn("a drain was not followed; it is tried again", { node, error });
      });
    running.add(task);
    void task.finally(() => running.delete(task));
  };

  const idle = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running);
  };

  nodes.onChange(follow);

  return {
    overdue: (node) => late.get(node),
    async run() {
      for (const { record } of nodes.list()) follow(record.name); // K1
      const again = async () => {
        for (const node of [...drained]) follow(node);
        await idle();
      };
      return await every(againMs, again, {
        signal,
        clock,
        onError: (error) => log.error("looking at drains failed", { error }),
      });
    },
    idle,
  };
};
