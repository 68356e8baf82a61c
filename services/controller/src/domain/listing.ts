/** What backends themselves have, as their plugins list it. A listing is no proof of absence until it was read to its end. */
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import type { Segments } from "./volume/volume.ts";

export interface ListedVolume {
  readonly externalId: string;
  /** Bytes; 0 = not told. */
  readonly capacity: number;
  readonly context: Readonly<Record<string, string>>;
  readonly accessible: readonly Segments[];
  readonly sourceSnapshot: string;
  readonly sourceVolume: string;
  /** The plugin's ids of the nodes that it is attached to; undefined = the plugin does not tell. */
  readonly publishedNodes?: readonly string[];
  readonly condition?: { readonly abnormal: boolean; readonly message: string };
}

/** A volume that its backend says is unwell. */
export interface ListedHealth {
  readonly externalId: string;
  readonly entries: readonly VolumeHealthEntry[];
}

export interface ListedSnapshot {
  readonly externalId: string;
  readonly sourceVolume: string;
  /** Bytes; 0 = not told. */
  readonly size: number;
  /** When it was cut, by the backend's clock; 0 = not told. */
  readonly createdAt: number;
  readonly ready: boolean;
  /** Of the group that it was cut with; "" = of none. */
  readonly group: string;
}

export interface ListingPage<T> {
  readonly entries: readonly T[];
  /** "" = this was the last one. A page with few or no entries is not the end. */
  readonly next: string;
}

export interface ListingRequest {
  /** "" = from the start. */
  readonly token: string;
  readonly max: number;
}

/** What a plugin can tell of what it has. */
export interface ListingSkills {
  readonly ready: boolean;
  readonly reason: string;
  readonly volumes: Tri;
  readonly publishedNodes: Tri;
  readonly snapshots: Tri;
  /** One volume by its id. */
  readonly single: Tri;
}
