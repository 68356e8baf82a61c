import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { LastError } from "../outcome.ts";

/** How a volume is, in the words of whoever looked at it. For people: nothing acts on it. */
export interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}

export interface VolumeUsage {
  readonly unit: "bytes" | "inodes";
  readonly total: bigint;
  readonly used: bigint;
  readonly available: bigint;
}

/** What one agent last measured of one volume. */
export interface VolumeSample {
  readonly volumeUid: string;
  readonly usage: readonly VolumeUsage[];
  readonly condition?: VolumeCondition;
  /** As the node's half of the plugin sees it now; absent: it does not tell, or did not answer. */
  readonly health?: readonly VolumeHealthEntry[];
  /** By the agent's clock; absent before its first success. */
  readonly measuredAt?: number;
  /** Why it could not be measured anew; what was measured before stands beside it. */
  readonly error?: LastError & { readonly method?: string };
}

/** What the backend says of a volume. */
export interface BackendVolume {
  /** 0: it does not say. */
  readonly capacity: number;
  /** Absent: the plugin does not tell. */
  readonly condition?: VolumeCondition;
}

export interface FiguresWanted {
  readonly volumeUid: string;
  /** Of a publication that the figures have to be newer than. */
  readonly since: number;
}
