/** What the logic of the controller needs of agents. */
import type { Vetting } from "@holdfast/model/vetting";
import type { Claim } from "./domain/claim/claim.ts";
import type { Inventory, Permit, PublishAnswer, ReleaseAnswer } from "./domain/claim/permit.ts";
import type { NodeRecord } from "./domain/node/node.ts";
import type { SizeRange } from "./domain/size/expansion.ts";
import type { GrowAnswer } from "./domain/size/growth-change.ts";
import type { VolumeRecord } from "./domain/volume/volume.ts";
import type { VolumeSample } from "./domain/volume/volume-sample.ts";
import type { CallContext } from "./ports.ts";

/** What an order to an agent carries besides its subject. */
export interface OrderContext extends Pick<CallContext, "signal" | "attempt"> {
  /** Of the store when the record was read from which the order follows. */
  readonly vetting: Vetting;
}

/** A call that changes something and may be open at a plugin. */
export interface OpenCall {
  readonly plugin: string;
  /** Of its order; empty: it came without one. */
  readonly opId: string;
  /** For people. */
  readonly words: string;
}

/** What an agent has promised. */
export interface Promised {
  /** What was asked, or what stands in its way: a higher generation, or the same for another vetting. */
  readonly vetting: Vetting;
  /** Calls of controllers that may be open at plugins of its host. */
  readonly openCalls: readonly OpenCall[];
}

/** The agents, one channel a node. A call without an answer is `uncertain` or `pending`, never an exception of its own kind. */
export interface AgentGateway {
  publish(node: NodeRecord, permit: Permit, call: OrderContext): Promise<PublishAnswer>;
  release(node: NodeRecord, order: ReleaseOrder, call: OrderContext): Promise<ReleaseAnswer>;
  /** NodeExpandVolume where the volume is published. */
  expand(node: NodeRecord, order: GrowOrder, call: OrderContext): Promise<GrowAnswer>;
  /** Has the agent promise that vetting, so that no order of an earlier one is followed there any more. Rejects when it does not answer. */
  promise(node: NodeRecord, vetting: Vetting, signal: AbortSignal): Promise<Promised>;
  /** How full volumes are, by uid; rejects when the agent does not answer. */
  stats(node: NodeRecord, volumeUids: readonly string[], signal: AbortSignal): Promise<readonly VolumeSample[]>;
  /** Rejects when the agent does not answer. */
  inventory(node: NodeRecord, signal: AbortSignal): Promise<Inventory>;
}

export interface GrowOrder {
  readonly volume: VolumeRecord;
  /** Of the volume's claims there: how it is used. */
  readonly claim: Claim;
  readonly nodeEpoch: number;
  readonly capacity: SizeRange;
}

export interface ReleaseOrder {
  readonly namespace: string;
  readonly volume: string;
  readonly volumeUid: string;
  readonly externalId: string;
  readonly plugin: string;
  readonly claimUid: string;
  readonly nodeEpoch: number;
  readonly epoch: { readonly gen: number; readonly ctr: number };
}
