import type { Attempts, Blocked, Ending } from "../outcome.ts";

/** Bytes; 0 = no bound. */
export interface SizeRange {
  readonly required: number;
  readonly limit: number;
}

/**
 * WANTED     nothing was called for it yet
 * CALLING    ControllerExpandVolume is, or may be, under way; the volume's intent says so too
 * UNCERTAIN  an attempt had no certain answer: the backend may be bigger than the record says
 * REFUSED    over: the volume is as it was, and this says why
 */
export const expansionStates = ["WANTED", "CALLING", "UNCERTAIN", "REFUSED"] as const;
export type ExpansionState = (typeof expansionStates)[number];

/** What the backend is asked for. The volume's own capacity follows only when it has answered. */
export interface Expansion {
  readonly state: ExpansionState;
  readonly target: SizeRange;
  /** Asked for while a call was under way; takes the target's place after it. */
  readonly next?: SizeRange;
  /** The plugin does it only for a volume that no node has. */
  readonly onlyUnused: boolean;
  /** Nobody says so but the profile, or its absence: the plugin names no kind of expansion. */
  readonly assumed?: true;
  readonly uncertainSince?: number;
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
  readonly failure?: Ending;
  readonly trace?: { readonly parent: string; readonly at: number };
  readonly since: number;
}

/** How one node stands with its part. */
export interface NodeGrowth {
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
  /** An attempt there had no certain answer. */
  readonly uncertainSince?: number;
  /**
   * CSI on NodeExpandVolume and FAILED_PRECONDITION: the same call MUST NOT be repeated while the volume is used like that. So
   * it waits until all of these claims are gone.
   */
  readonly refusedBeside?: readonly string[];
}

/**
 * NodeExpandVolume is owed: to every node that has the volume, and while none has had it done, to the next one that stages it. A
 * volume that nobody uses keeps the debt.
 */
export interface Growth {
  readonly bytes: number;
  readonly limit: number;
  /** The plugin grows volumes on nodes alone: what they answer is the new size. */
  readonly byNodes: boolean;
  /** Nodes that have done it. */
  readonly done: readonly string[];
  readonly nodes: Readonly<Record<string, NodeGrowth>>;
  readonly since: number;
}

/** Which way a plugin makes a volume bigger, by what it announces. `unknown` waits. */
export type ExpandPlan = "any-time" | "only-unused" | "assumed-unused" | "by-nodes" | "cannot" | "unknown";

export const isPending = (expansion: Expansion | undefined): expansion is Expansion =>
  expansion !== undefined && expansion.state !== "REFUSED";
