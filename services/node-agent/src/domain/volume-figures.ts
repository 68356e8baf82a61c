/** What a plugin measures of a volume, and what grows it. */
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Vetting } from "@holdfast/model/vetting";
import type { VolumeUse } from "@holdfast/model/volume-use";
import type { VolumeRef } from "./types.ts";

export interface VolumeUsage {
  readonly unit: "bytes" | "inodes";
  readonly total: bigint;
  readonly used: bigint;
  readonly available: bigint;
}

export interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}

export interface VolumeFigures {
  readonly usage: readonly VolumeUsage[];
  /** Absent when the plugin does not tell. */
  readonly condition?: VolumeCondition;
}

/** The last that is known of one volume; a failure leaves the older figures standing, with their time. */
export interface VolumeMeasure {
  readonly volumeUid: string;
  readonly figures: VolumeFigures;
  /** Wall clock, milliseconds; absent before the first success. */
  readonly measuredAt?: number;
  /** Publications of this host that share the figures. */
  readonly sharedBy: number;
  readonly error?: MeasureError;
  /** As the plugin sees it here; absent: it does not tell, or did not answer this time. */
  readonly health?: readonly VolumeHealthEntry[];
}

export interface MeasureError {
  readonly reason: string;
  readonly message: string;
  readonly method: string;
  readonly code: string;
  /** Wall clock, milliseconds. */
  readonly at: number;
}

/** 0: no bound. */
export interface CapacityRange {
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
}

export interface ExpandOrder {
  readonly ref: VolumeRef;
  readonly nodeEpoch: number;
  readonly capacity: CapacityRange | undefined;
  readonly usedAs: VolumeUse | undefined;
  /** Counts the orders; absent = it is not known to be a repeat. */
  readonly attempt?: number;
  readonly secrets: Readonly<Record<string, string>>;
  /** What the store of the controller was vetted as; absent: an earlier version, or the growth came with a permit. */
  readonly vetting?: Vetting | undefined;
}
