import type { PoolState } from "../attachment/attach-pool.ts";

/** What speaks against a node, in words that are stable. */
export type PlacementObstacle =
  | "VOLUME_NOT_FOUND"
  | "VOLUME_NOT_AVAILABLE"
  | "CAPABILITY_MISMATCH"
  | "CLAIM_CONFLICT"
  | "NODE_NOT_READY"
  | "NODE_DRAINED"
  | "PLUGIN_MISSING"
  | "PLUGIN_UNHEALTHY"
  | "CONTROLLER_PLUGIN_MISSING"
  | "TOPOLOGY_MISMATCH"
  | "ATTACH_LIMIT"
  | "CAPACITY"
  | "NODE_BARRED"
  | "VOLUME_BUSY"
  | "STORAGE_INACCESSIBLE"
  | "STORAGE_UNREACHABLE"
  | "STORE_UNVETTED"
  | "QUOTA_EXCEEDED";

export interface TopologyDifference {
  readonly key: string;
  readonly wanted: readonly string[];
  readonly has: string;
}

export interface SlotsShort {
  readonly limit: number;
  readonly used: number;
  readonly needed: number;
  /** That several plugins share. */
  readonly pool?: PoolState;
}

export interface PlacementReason {
  readonly obstacle: PlacementObstacle;
  /** Empty when it concerns all volumes. */
  readonly volume: string;
  readonly plugin: string;
  readonly message: string;
  /** May pass without anybody's doing. */
  readonly transient: boolean;
  readonly holder?: { readonly workload: string; readonly node: string };
  readonly topology?: readonly TopologyDifference[];
  readonly slots?: SlotsShort;
}

/** Total: a new obstacle does not compile until somebody said whether waiting helps. Where it depends, the reason says so itself. */
const passes: Readonly<Record<PlacementObstacle, boolean>> = {
  VOLUME_NOT_FOUND: false,
  VOLUME_NOT_AVAILABLE: false,
  CAPABILITY_MISMATCH: false,
  CLAIM_CONFLICT: true,
  NODE_NOT_READY: true,
  NODE_DRAINED: false,
  PLUGIN_MISSING: false,
  PLUGIN_UNHEALTHY: true,
  CONTROLLER_PLUGIN_MISSING: true,
  TOPOLOGY_MISMATCH: false,
  ATTACH_LIMIT: true,
  CAPACITY: false,
  NODE_BARRED: true,
  VOLUME_BUSY: true,
  STORAGE_INACCESSIBLE: true,
  STORAGE_UNREACHABLE: true,
  STORE_UNVETTED: true,
  QUOTA_EXCEEDED: false,
};

export const placementReason = (
  obstacle: PlacementObstacle,
  message: string,
  of: Partial<Omit<PlacementReason, "obstacle" | "message">> = {},
): PlacementReason => ({ obstacle, volume: "", plugin: "", message, transient: passes[obstacle], ...of });
