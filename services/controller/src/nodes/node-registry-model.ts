/** What the registry of nodes is asked and tells. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Dispute } from "../domain/node/dispute.ts";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { NodeDecisions, Nodes } from "../ports.ts";
import type { AgentHeader } from "./convert.ts";
import type { LinkEnd } from "./node-links.ts";
import type { NodeStore } from "./node-store.ts";

/** What an agent reports when something has changed. */
export interface AgentReport {
  readonly node: string;
  readonly instance: string;
  readonly baseRevision: number;
  readonly revision: number;
  readonly changed: readonly NodePlugin[];
  readonly removed: readonly { readonly plugin: string; readonly instance: string }[];
  readonly accepting: boolean;
  readonly message: string;
}

export interface ReportAnswer {
  readonly known: boolean;
  readonly record: NodeRecord | undefined;
}

/** What is known of a node beside its record, for people. */
export interface NodeDetails {
  readonly rev: number;
  /** When this controller heard the node last, by the wall clock: now while it has the node's link, then when that ended. */
  readonly lastHeard: number | undefined;
  /** How the link ended that this controller had. Shown at once; the node stays READY until no controller has had it for a grace. */
  readonly linkEnd: LinkEnd | undefined;
  /** Why it is not accepting, in its agent's words. */
  readonly message: string;
  /** Another process asks for the name, and is refused. */
  readonly dispute: Dispute | undefined;
  /** Wall clock of this controller: since when it sees the state that it shows. */
  readonly since: number | undefined;
}

export interface NodeRegistry extends Nodes, NodeDecisions {
  /** Reads every record: before the server listens, and whenever changes may have been missed. */
  load(): Promise<void>;
  /** Rejects with NODE_CONFLICT or CLUSTER_MISMATCH. */
  register(header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord>;
  report(report: AgentReport): Promise<ReportAnswer>;
  /** A stream of that process begins at this controller; it has registered there. */
  linked(node: string, instance: string): void;
  /** The last stream of that process at this controller has ended. */
  unlinked(node: string, instance: string, why: string): void;
  details(name: string): NodeDetails | undefined;
  /** Another controller wrote the record. */
  learnOf(name: string): Promise<void>;
  /** Looks for links that are missing until the signal; rejects then. */
  watchLinks(signal: AbortSignal): Promise<never>;
}

export interface NodeRegistryOptions {
  readonly nodes: NodeStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** For how long a node that no controller has the link of stays READY. */
  readonly graceMs: number;
  /** The same in all lives of this controller. */
  readonly controllerId: string;
  readonly signal: AbortSignal;
}
