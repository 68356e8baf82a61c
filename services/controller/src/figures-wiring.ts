/** A part of the composition root: how full volumes are, and how they are. */
import type { Metrics } from "@holdfast/shared/metrics";
import { createVolumeStats, type VolumeStatsDeps } from "./commands/volume/volume-stats.ts";
import type { ControllerConfig } from "./config.ts";
import { type ConditionMonitorOptions, createConditionMonitor } from "./figures/condition-monitor.ts";
import { createHealthMonitor, type HealthMonitorOptions } from "./figures/health-monitor.ts";
import { createLostVolumes, type LostVolumesOptions } from "./figures/lost-volumes.ts";
import { createNodeFigures } from "./figures/node-figures.ts";
import type { Nodes } from "./ports.ts";
import { readListing } from "./reconcile/two-way/two-way-listing.ts";

export interface FiguresWiring
  extends Omit<ConditionMonitorOptions, "nodes" | "records" | "clock" | "intervalMs" | "plugins">,
    Pick<VolumeStatsDeps, "clock"> {
  readonly records: ConditionMonitorOptions["records"] &
    HealthMonitorOptions["records"] &
    LostVolumesOptions["records"] &
    VolumeStatsDeps["records"];
  readonly config: Pick<ControllerConfig, "conditionInterval">;
  readonly plugins: ConditionMonitorOptions["plugins"] &
    HealthMonitorOptions["plugins"] &
    Pick<HealthMonitorOptions, "health"> &
    Pick<LostVolumesOptions, "listings">;
  readonly repair: Pick<LostVolumesOptions, "orphans">;
  readonly nodes: Nodes;
  readonly clock: ConditionMonitorOptions["clock"];
  readonly metrics: Metrics;
}

/** Of a list of volumes that are unwell. */
const pages = { pageSize: 200, maxPages: 5_000, maxRestarts: 2 };

export const wireFigures = (deps: FiguresWiring) => {
  const figures = createNodeFigures(deps);
  const intervalMs = deps.config.conditionInterval;
  const lost = createLostVolumes({
    ...deps,
    orphans: deps.repair.orphans,
    listings: deps.plugins.listings,
    baseMs: intervalMs,
  });
  const health = createHealthMonitor({
    ...deps,
    lost,
    health: deps.plugins.health,
    intervalMs,
    readAll: (ask) => readListing({ ask, ...pages }),
  });
  const monitor = createConditionMonitor({ ...deps, intervalMs, onSamples: health.heard });
  deps.metrics.gauge({
    name: "holdfast_volumes_unwell",
    help: "Volumes with something adverse in their health (CSI 1.13), by who says so, the backend or a node, and by status.",
    labels: ["plugin", "side", "status"],
    collect(gauge) {
      for (const { count, ...labels } of health.unwell()) gauge.set(labels, count);
    },
  });
  deps.metrics.gauge({
    name: "holdfast_volumes_abnormal",
    help: "Volumes of which their plugin says that they are abnormal.",
    labels: ["plugin"],
    collect(gauge) {
      for (const [plugin, count] of monitor.abnormal()) gauge.set({ plugin }, count);
    },
  });
  const lookAtVolumes = () => Promise.all([monitor.run(), health.run()]);
  return { stats: createVolumeStats({ ...deps, figures }), lookAtVolumes };
};
