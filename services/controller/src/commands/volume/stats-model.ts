import type { VolumeRef } from "../../domain/volume/volume.ts";
import type { VolumeSample } from "../../domain/volume/volume-sample.ts";
import type { Page, PageInput, VolumeView } from "../model.ts";

/** What was measured of one volume on one node, for the claims that share it. */
export interface VolumeFigures {
  readonly namespace: string;
  readonly volume: string;
  readonly node: string;
  readonly claimUids: readonly string[];
  readonly sample: VolumeSample;
}

export interface VolumeStatsView extends VolumeView {
  readonly nodes: readonly VolumeFigures[];
}

/** How full volumes are. All reject with HoldfastError, as commands do. */
export interface StatsQueries {
  /** `node` "" = every node where it is published. */
  volumeStats(input: VolumeRef & { readonly node: string }): Promise<VolumeStatsView>;
  /** `namespace` "" = every one. */
  nodeStats(of: { readonly name: string; readonly namespace: string }, page: PageInput): Promise<Page<VolumeFigures>>;
}
