import type { CapabilityMask } from "./capabilities.ts";
import type { Fault } from "./faults.ts";
import type { IdStyle } from "./ids.ts";
import type { LateCalls } from "./late-calls.ts";
import type { StringMap } from "./model.ts";
import type { Method } from "./rpc.ts";

/** How a list differs from what there is. */
export interface ListingLies {
  /** Every row comes twice. */
  readonly repeats?: boolean;
  /** Rows that are left out. */
  readonly hides?: readonly string[];
  /** No row shows the nodes that it is attached to. */
  readonly deniesNodes?: boolean;
}

export interface NodeSettings {
  readonly maxVolumes?: number;
  readonly topology?: StringMap;
}

/** How the simulated storage is; plain data, so that it can travel to the backend process. */
export interface BackendSettings {
  /** The name GetPluginInfo answers. */
  readonly name?: string;
  readonly vendorVersion?: string;
  readonly capabilities?: CapabilityMask;
  readonly faults?: readonly Fault[];
  /** Milliseconds each call takes, by method; "*" for the others. */
  readonly latency?: { readonly [M in Method | "*"]?: number };
  /** Instead of `latency`, for the calls that change something: some are slow. */
  readonly lateCalls?: LateCalls;
  /** Calls to the controller half are also judged as they arrive, by `arrivalRules`. */
  readonly judgesArrivals?: boolean;
  /** Secrets each method wants. A method that is not here takes any. */
  readonly secrets?: { readonly [M in Method]?: StringMap };
  /** Refuses a capability that is not, in all its fields, one that CreateVolume carried. */
  readonly comparesCapabilities?: boolean;
  /** Makes a volume only when it is told a preferred place, and says so in words of its own. */
  readonly needsPreferred?: boolean;
  /** By node id. When none is declared and no node plugin has come, every node id is believed. */
  readonly nodes?: { readonly [node: string]: NodeSettings };
  readonly idStyle?: IdStyle;
  /** What CreateVolume answers as volume_context; something that differs per volume unless told. */
  readonly volumeContext?: StringMap;
  /** Bytes of the whole pool; 16 TiB unless told. */
  readonly poolBytes?: bigint;
  readonly maxVolumeBytes?: bigint;
  readonly minVolumeBytes?: bigint;
  /** Answers of a new snapshot that still say "not ready". */
  readonly snapshotPolls?: number;
  /** Keys ControllerModifyVolume and CreateVolume accept as mutable; any unless told. */
  readonly mutableKeys?: readonly string[];
  /** Whether ControllerExpandVolume says that the node has to follow; true unless told. */
  readonly nodeExpansionRequired?: boolean;
}

export const defaultName = "sim.holdfast.dev";
const GiB = 1024n ** 3n;

export const sizesOf = (settings: BackendSettings): { pool: bigint; max: bigint; min: bigint } => ({
  pool: settings.poolBytes ?? 16384n * GiB,
  max: settings.maxVolumeBytes ?? 1024n * GiB,
  min: settings.minVolumeBytes ?? 1024n * 1024n,
});
