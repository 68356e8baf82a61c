/** A part of the composition root: how full volumes are, and how they are. */
import type { Metrics } from "@holdfast/shared/metrics";
import { createVolumeStats, type VolumeStatsDeps } from "./commands/volume/volume-stats.ts";
import type { ControllerConfig } from "./config.ts";
import { type ConditionMonitorOptions, createConditionMonitor } from "./figures/condition-monitor.ts";
import { createNodeFigures } from "./figures/node-figures.ts";
import type { Nodes } from "./ports.ts";

export interface FiguresWiring
  extends Omit<ConditionMonitorOptions, "nodes" | "records" | "clock" | "intervalMs">,
    Pick<VolumeStatsDeps, "records" | "clock"> {
  readonly config: Pick<ControllerConfig, "conditionInterval">;
  readonly nodes: Nodes;
  readonly clock: ConditionMonitorOptions["clock"];
  readonly metrics: Metrics;
}

export const wireFigures = (deps: FiguresWiring) => {
  const figures = createNodeFigures(deps);
  const monitor = createConditionMonitor({ ...deps, intervalMs: deps.config.conditionInterval });
  deps.metrics.gauge({
    name: "holdfast_volumes_abnormal",
    help: "Volumes of which their plugin says that they are abnormal.",
    labels: ["plugin"],
    collect(gauge) {
      for (const [plugin, count] of monitor.abnormal()) gauge.set({ plugin }, count);
    },
  });
  return { stats: createVolumeStats({ ...deps, figures }), lookAtVolumes: monitor.run };
};
