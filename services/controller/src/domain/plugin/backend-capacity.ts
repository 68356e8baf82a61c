import type { Segments, VolumeCapability } from "../volume/volume.ts";

/** What a volume would be like for which there should be room: the same words as those of the CreateVolume that may follow. */
export interface CapacityQuery {
  readonly plugin: string;
  readonly capabilities: readonly VolumeCapability[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly topology?: Segments;
}

/** Bytes; 0 for a bound that the plugin does not tell. */
export interface BackendCapacity {
  readonly available: number;
  readonly maximumVolume: number;
  readonly minimumVolume: number;
}
