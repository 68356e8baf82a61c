/** What the registry of nodes is asked and tells. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import type { NodeDecisions, Nodes } from "../ports.ts";
import type { AgentHeader } from "./convert.ts";
import type { NameConflict } from "./name-disputes.ts";
import type { NodeStore } from "./node-store.ts";

export interface AgentBeat {
  readonly node: string;
  readonly instance: string;
  readonly baseRevision: number;
  readonly revision: number;
  readonly changed: readonly NodePlugin[];
  readonly removed: readonly { readonly plugin: string; readonly instance: string }[];
  readonly accepting: boolean;
  readonly message: string;
}

export interface BeatAnswer {
  readonly known: boolean;
  readonly record: NodeRecord | undefined;
}

/** What is known of a node beside its record, for people. */
export interface NodeDetails {
  readonly rev: number;
  /** Wall clock, for display. */
  readonly lastHeartbeat: number | undefined;
  /** Why it is not accepting, in its agent's words. */
  readonly message: string;
  /** Another process wants the name. */
  readonly conflict: NameConflict | undefined;
  /** Wall clock of this controller: since when it sees the state that it shows. */
  readonly since: number | undefined;
}

export interface NodeRegistry extends Nodes, NodeDecisions {
  /** Reads every record: before the server listens, and whenever changes may have been missed. */
  load(): Promise<void>;
  /** Rejects with NODE_CONFLICT or CLUSTER_MISMATCH. */
  register(header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord>;
  heartbeat(beat: AgentBeat): Promise<BeatAnswer>;
  details(name: string): NodeDetails | undefined;
  /** Another controller wrote the record. */
  learnOf(name: string): Promise<void>;
  /** Looks for silence until the signal; rejects then. */
  watchSilence(signal: AbortSignal): Promise<never>;
}

export interface NodeRegistryOptions {
  readonly nodes: NodeStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}
