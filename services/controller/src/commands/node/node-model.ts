import type { Blocked, LastError } from "../../domain/outcome.ts";
import type { NodeView } from "../../ports.ts";
import type { Caller } from "../model.ts";

export interface DrainNodeInput {
  readonly name: string;
  readonly reason: string;
  readonly mode: "wait" | "release";
  /** undefined = no time is set. */
  readonly deadlineMs: number | undefined;
}

export interface UndrainNodeInput {
  readonly name: string;
  readonly reason: string;
}

export interface ForgetNodeInput extends UndrainNodeInput {
  readonly dryRun: boolean;
}

/** Why the volumes of a node may be taken from it. */
export type FenceEvidence =
  /** The words of a person who has seen that its machine is off. */
  | { readonly kind: "power-off"; readonly words: string }
  /** The profiles of its plugins say that a node from which they detach cannot write any more. */
  | { readonly kind: "on-detach" };

export interface FenceNodeInput extends ForgetNodeInput {
  readonly evidence: FenceEvidence | undefined;
  /** The incarnation that the caller means; 0 = not given, for a dry run. */
  readonly expectedNodeEpoch: number;
  readonly requestId: string;
}

/** A claim that is still on the node; without a uid an attachment or a bar that outlived its claims. */
export interface RemainingClaim {
  readonly namespace: string;
  readonly volume: string;
  readonly plugin: string;
  readonly workload: string;
  readonly alias: string;
  readonly uid: string;
  readonly state: string;
  readonly stateSince: number | undefined;
  readonly waitingFor: string;
  readonly blocked: Blocked | undefined;
  readonly lastError: LastError | undefined;
}

export type DrainStage = "CLAIMS" | "PLUGINS" | "DONE";

export interface DrainView {
  readonly node: NodeView;
  readonly stage: DrainStage;
  /** In the order of volumes. */
  readonly remaining: readonly RemainingClaim[];
  readonly remainingCount: number;
  /** Claims that wait for the node and have nothing of it yet. */
  readonly queuedCount: number;
}

/** What a verb does, or would do. */
export interface Consequence {
  readonly effects: readonly string[];
  readonly risks: readonly string[];
}

/** What forgetting a node means; `absent`: there was none. */
export interface Forgotten extends Consequence {
  readonly absent: boolean;
}

/** A fence, or what it would be. */
export interface FenceView extends Consequence, Pick<DrainView, "node" | "remaining" | "remainingCount"> {}

/** All reject with HoldfastError and the reasons of docs/errors.md. */
export interface NodeCommands {
  drainNode(input: DrainNodeInput, caller: Caller): Promise<DrainView>;
  undrainNode(input: UndrainNodeInput, caller: Caller): Promise<NodeView>;
  forgetNode(input: ForgetNodeInput, caller: Caller): Promise<Forgotten>;
  fenceNode(input: FenceNodeInput, caller: Caller): Promise<FenceView>;
  /** How far its fence is. */
  fenceView(name: string): Promise<FenceView>;
  /** How its drain stands, or what a drain would meet. */
  drainView(name: string): Promise<DrainView>;
}
