import type { Metrics } from "@holdfast/shared/metrics";
import type { PluginDirectory } from "./plugin-directory.ts";

/** What /metrics tells of the plugins of a directory. */
export function createPluginMetrics(metrics: Metrics, directory: Pick<PluginDirectory, "list">): void {
  metrics.gauge({
    name: "holdfast_plugin_impostors",
    help: "Sockets that announce a plugin whose name is bound to another socket; they get no call.",
    collect: (gauge) =>
      gauge.set({}, directory.list().filter(({ status }) => status().impostorOf !== undefined).length),
  });
}
