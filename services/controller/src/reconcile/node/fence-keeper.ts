/**
 * Follows fences: takes from a node that is FENCING what it has, makes it QUARANTINED when it has nothing more, and READY when its agent
 * has come back and shown that it is empty.
 *
 * FK1 Only the stored fence is followed, and only in a vetted store: one that lost writes may show a fence that is long over (I8).
 * FK2 A node is forced only while it is silent. Once its agent speaks, what was not forced yet ends by the agent's own release.
 * FK3 A node is READY again only on an inventory of its registered life, under the incarnation of the fence or a later one, without a hold
 *     and without a mount that no record explains. Until then its agent takes no permit.
 * FK4 A claim is ended only over the very record of the node that is FENCING: another controller may have made it READY again, or heard
 *     its agent.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway } from "../../agent-ports.ts";
import { living } from "../../domain/attachment/foreign-hold.ts";
import { noChange } from "../../domain/change.ts";
import type { Inventory } from "../../domain/claim/permit.ts";
import { barsBeforeFence, fenceEnded, heldOn, isDisproved, isFenced, volumeFenced } from "../../domain/node/fence.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { NodeDecisions, Nodes, NodeView, StoreGate } from "../../ports.ts";
import { isSilent } from "../../records/grant-facts.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { createNodeFollower, type NodeFollower } from "./node-follower.ts";

export interface FenceKeeperDeps {
  readonly nodes: Nodes & Pick<NodeDecisions, "change">;
  readonly records: Pick<VolumeRecords, "list" | "change">;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly gate: StoreGate;
  /** The volume is looked at again, whatever its pauses. */
  readonly wake: (key: string, hurry: boolean) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** What a fence waits for is another thing now. */
  readonly changed?: (node: string) => void;
}

export interface FenceKeeper extends NodeFollower {
  /** What the fence of the node waits for, as this controller saw it last; empty when it was not looked at, or waits for nothing. */
  waitsFor(node: string): string;
}

/** A detach, a bar and a mount of the host tell nobody that watches the node that they are gone. */
const againMs = 1_000;

/** There is nobody here whose inventory could be asked for. */
const isAway = ({ live, linked = live === "alive" }: NodeView): boolean => !linked;

/** FK3: what the agent has to give back still; undefined = nothing. */
const leftOf = ({ nodeEpoch, volumes, orphans }: Inventory, record: NodeRecord): string | undefined => {
  if (nodeEpoch !== record.nodeEpoch) return `its agent to hear of incarnation ${record.nodeEpoch}`;
  const held = volumes.filter((volume) => living(volume.held).length > 0);
  const [first] = held;
  if (first !== undefined)
    return `its agent to unmount ${held.length} volumes, the first: ${volumeKey({ namespace: first.namespace, id: first.volume })}`;
  return orphans.length === 0
    ? undefined
    : `${orphans.length} mounts on the host to be taken away that no journal explains, the first: ${orphans[0]} (umount, or HOLDFAST_ORPHAN_MOUNTS=unmount)`;
};

export const createFenceKeeper = (deps: FenceKeeperDeps): FenceKeeper => {
  const { nodes, records, agents, gate, wake, clock, log, signal, changed } = deps;
  const waits = new Map<string, string>();

  const says = (node: string, what: string): void => {
    if ((waits.get(node) ?? "") === what) return;
    if (what === "") waits.delete(node);
    else waits.set(node, what);
    changed?.(node);
  };

  /** Over the record that was looked at: what was decided since counts more. */
  const become = async (seen: NodeRecord, next: (record: NodeRecord) => NodeRecord): Promise<void> => {
    const now = clock.now();
    const view = await nodes.change(seen.name, (record) =>
      record.state === seen.state && record.nodeEpoch === seen.nodeEpoch && record.instance === seen.instance
        ? { ...next(record), updatedAt: now }
        : record,
    );
    if (view !== undefined && view.record.state !== seen.state)
      log.warn("the fence of a node went on", { node: seen.name, from: seen.state, to: view.record.state });
  };

  const force = async (view: NodeView): Promise<void> => {
    const { record } = view;
    const { name } = record;
    let held = 0;
    let first = "";
    const judged = nodeJudgement(nodes, name); // FK4
    const decide: Decide = (volume, at) => {
      judged.look();
      const now = nodes.get(name);
      if (now?.record.state !== "FENCING") return noChange(volume);
      return volumeFenced(volume, now.record, isSilent(now) ? "forced" : "asked", at);
    };
    for await (const { volume } of volumesOnNode(records, name, true)) {
      const { volume: after } = await records.change(volume, decide, { expects: judged.expects });
      if (after === null) continue;
      const left = heldOn(after, name);
      if (left === 0) continue;
      held += left;
      const key = volumeKey(after);
      const barred = barsBeforeFence(after, name).length > 0;
      if (first === "") first = `${key}${barred ? ", behind a bar" : ""} (holdfast volume explain says why)`;
      if (barred) wake(key, true);
    }
    const waiting =
      isSilent(view) && isDisproved(record) ? "its agent, or new evidence (holdfast node fence), and " : "";
    says(name, held === 0 ? "" : `${waiting}${held} claims, attachments and bars there to end, the first: ${first}`);
    if (held === 0) await become(record, (now) => ({ ...now, state: "QUARANTINED" }));
  };

  const welcome = async (view: NodeView): Promise<void> => {
    const { record } = view;
    if (isAway(view)) return says(record.name, "");
    const left = leftOf(await agents.inventory(record, signal), record);
    says(record.name, left ?? "");
    if (left === undefined) await become(record, fenceEnded);
  };

  const look = async (name: string): Promise<void> => {
    const view = nodes.get(name);
    if (view === undefined || !isFenced(view.record)) return says(name, "");
    if (!gate.state().open) return says(name, "the store to be vetted"); // FK1
    return view.record.state === "FENCING" ? await force(view) : await welcome(view);
  };

  const isConcern = (name: string): boolean => {
    const view = nodes.get(name);
    return view !== undefined && isFenced(view.record);
  };
  const follower = createNodeFollower({ what: "a fence", nodes, isConcern, look, againMs, clock, log, signal });
  return {
    ...follower,
    waitsFor(node) {
      const view = nodes.get(node);
      return view?.record.state === "QUARANTINED" && isAway(view) ? "its agent to come back" : (waits.get(node) ?? "");
    },
  };
};
