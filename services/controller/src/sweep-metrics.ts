/** What /metrics tells of the comparison of backends with the records. */
import type { Metrics } from "@holdfast/shared/metrics";
import type { Sweep } from "./reconcile/two-way/sweep.ts";

export const measureSweep = (metrics: Metrics, sweep: Pick<Sweep, "status">, now: () => number): void => {
  metrics.gauge({
    name: "holdfast_sweep_age_seconds",
    help: "Time since the last comparison of a backend with the records ended.",
    labels: ["plugin"],
    collect(gauge) {
      for (const { plugin, last } of sweep.status())
        if (last !== undefined) gauge.set({ plugin }, (now() - last.at) / 1000);
    },
  });
  metrics.gauge({
    name: "holdfast_sweep_complete",
    help: "1: the last comparison read the backend's lists to their end.",
    labels: ["plugin"],
    collect(gauge) {
      for (const { plugin, last } of sweep.status())
        if (last !== undefined) gauge.set({ plugin }, Number(last.gap === undefined));
    },
  });
  metrics.gauge({
    name: "holdfast_sweep_entries",
    help: "Volumes that the last comparison read, or the one that runs has read so far.",
    labels: ["plugin"],
    collect(gauge) {
      for (const { plugin, running, last } of sweep.status()) gauge.set({ plugin }, (running ?? last)?.entries ?? 0);
    },
  });
  metrics.gauge({
    name: "holdfast_orphans",
    help: "What the last comparison found to be nobody's, or to be gone from the backend.",
    labels: ["plugin"],
    collect(gauge) {
      for (const { plugin, last } of sweep.status()) if (last !== undefined) gauge.set({ plugin }, last.orphans);
    },
  });
};
