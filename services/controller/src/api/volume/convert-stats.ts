/** What was measured of volumes → messages of holdfast.v1. */
import { UsageUnit, type VolumeUsage as WireUsage } from "@holdfast/shared/gen/holdfast/v1/common";
import type { PublishedVolumeStats } from "@holdfast/shared/gen/holdfast/v1/node";
import type { GetVolumeStatsResponse, NodeVolumeStats } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { VolumeFigures, VolumeStatsView } from "../../commands/volume/stats-model.ts";
import type { VolumeSample } from "../../domain/volume/volume-sample.ts";
import { conditionMessage, dateOf, lastErrorMessage } from "../convert-message.ts";

const units = { bytes: UsageUnit.USAGE_UNIT_BYTES, inodes: UsageUnit.USAGE_UNIT_INODES } as const;

const usageMessages = ({ usage }: VolumeSample): WireUsage[] =>
  usage.map(({ unit, total, used, available }) => ({ unit: units[unit], total, used, available }));

const shared = ({ sample, claimUids, node }: VolumeFigures) => ({
  usage: usageMessages(sample),
  condition: conditionMessage(sample.condition),
  measuredAt: dateOf(sample.measuredAt),
  error: lastErrorMessage(sample.error, { plugin: "", node }),
  claimUids: [...claimUids],
});

const nodeStatsMessage = (figures: VolumeFigures): NodeVolumeStats => ({ node: figures.node, ...shared(figures) });

export const publishedStatsMessage = (figures: VolumeFigures): PublishedVolumeStats => ({
  namespace: figures.namespace,
  volume: figures.volume,
  ...shared(figures),
});

export const volumeStatsMessage = ({ volume, nodes }: VolumeStatsView): GetVolumeStatsResponse => ({
  nodes: nodes.map(nodeStatsMessage),
  condition: conditionMessage(volume.condition),
});
