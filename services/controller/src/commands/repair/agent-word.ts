import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals, throwIfAborted } from "@holdfast/shared/async/signals";
import type { AgentGateway } from "../../agent-ports.ts";
import { isOfOtherMachine } from "../../domain/claim/grant.ts";
import type { Inventory } from "../../domain/claim/permit.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Nodes } from "../../ports.ts";

/**
 * What a node's own agent says of a volume. Only `holds` and `clean` are its word; the others say why there is none: it was never
 * here, it is silent, or the machine that had the volume is not the one that has the name now.
 */
export type AgentWord =
  | { readonly kind: "holds"; readonly claimUids: readonly string[] }
  | { readonly kind: "clean" }
  | { readonly kind: "silent"; readonly why: string }
  | { readonly kind: "other-machine" }
  | { readonly kind: "unknown-node" };

export interface AgentWordDeps {
  readonly nodes: Pick<Nodes, "get">;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly clock: Pick<Clock, "timer">;
  readonly signal: AbortSignal;
}

/** A person waits for it; an agent that is well answers in milliseconds. */
const patienceMs = 10_000;

export const heldBy = (inventory: Inventory, volume: Pick<VolumeRecord, "uid" | "plugin" | "externalId">) =>
  inventory.volumes
    .filter((v) => v.volumeUid === volume.uid || (v.plugin === volume.plugin && v.externalId === volume.externalId))
    .flatMap((v) => v.held.filter((h) => h.state !== "RELEASED").map((h) => h.claimUid));

export const askAgent = async (
  { nodes, agents, clock, signal }: AgentWordDeps,
  name: string,
  volume: Pick<VolumeRecord, "uid" | "plugin" | "externalId" | "attachments">,
): Promise<AgentWord> => {
  const view = nodes.get(name);
  if (view === undefined) return { kind: "unknown-node" };
  const attachment = volume.attachments[name];
  if (attachment !== undefined && isOfOtherMachine(attachment, view.record)) return { kind: "other-machine" };
  const until = linkSignals(signal);
  const stopTimer = clock.timer(patienceMs, () => until.abort(new DOMException("no answer in time", "TimeoutError")));
  try {
    const claimUids = heldBy(await agents.inventory(view.record, until.signal), volume);
    return claimUids.length === 0 ? { kind: "clean" } : { kind: "holds", claimUids };
  } catch (error) {
    throwIfAborted(signal);
    return { kind: "silent", why: error instanceof Error ? error.message : String(error) };
  } finally {
    stopTimer();
    until.dispose();
  }
};

/** For the consequence: what the agent could not rule out. */
export const agentEffect = (word: AgentWord, node: string): string => {
  switch (word.kind) {
    case "holds":
      return `the agent of node ${node} still holds it`;
    case "clean":
      return `the agent of node ${node} shows nothing of it`;
    case "silent":
      return `the agent of node ${node} was not heard: ${word.why}`;
    case "other-machine":
      return `node ${node} is another machine now, and cannot tell what the first one has mounted`;
    case "unknown-node":
      return `no agent of the name ${node} is known`;
  }
};
