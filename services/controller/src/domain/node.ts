import type { Segments } from "./volume.ts";

export const nodeStates = ["READY", "SUSPECT", "FENCING", "QUARANTINED"] as const;
export type NodeState = (typeof nodeStates)[number];

export type Tri = "yes" | "no" | "unknown";

export type PluginHealth = "HEALTHY" | "UNHEALTHY" | "INITIALISING";

/** One plugin as it runs on one node, from the agent's fingerprint. */
export interface NodePlugin {
  readonly name: string;
  readonly version: string;
  readonly instance: string;
  readonly role: "CONTROLLER" | "NODE" | "MONOLITH";
  readonly health: PluginHealth;
  readonly healthMessage: string;
  /** The plugin's own name for the node; what ControllerPublish is called with. */
  readonly nodeId: string;
  /** 0 = the plugin names no limit. */
  readonly maxVolumes: number;
  readonly topology: Segments;
  readonly capabilities: Readonly<Record<string, Tri>>;
}

export interface NodeRecord {
  readonly name: string;
  readonly machineId: string;
  readonly bootId: string;
  readonly journalUid: string;
  /** One per life of the agent process. */
  readonly instance: string;
  /** Rises when the agent comes back without its journal, or after a fence; permits of older ones are refused. */
  readonly nodeEpoch: number;
  /** SUSPECT is never stored: liveness is each controller's own view. */
  readonly state: Exclude<NodeState, "SUSPECT">;
  readonly address: string;
  readonly version: string;
  readonly verificationScope: "host" | "own-namespace";
  readonly plugins: readonly NodePlugin[];
  readonly registeredAt: number;
  readonly updatedAt: number;
}
