/** Every CSI call, under the name and the labels that others who call CSI plugins use, so that dashboards for those fit. */
import type { Metrics } from "@holdfast/shared/metrics";
import type { CallReport } from "./csi-exchange.ts";
import { pathOf } from "./methods.ts";

/** A plugin's own word is not trusted to be one of few: what comes after so many is counted together. */
const maxDrivers = 200;

const boundedLabel = (): ((value: string) => string) => {
  const seen = new Set<string>();
  return (value) => {
    if (seen.has(value)) return value;
    if (seen.size >= maxDrivers) return "other";
    seen.add(value);
    return value;
  };
};

/** As Go's gRPC writes codes, and so everybody who has this metric: DEADLINE_EXCEEDED is DeadlineExceeded. */
const statusText = (code: string): string =>
  code === "OK" ? code : code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());

export const createCallMetric = (metrics: Metrics): ((report: CallReport) => void) => {
  const calls = metrics.histogram({
    name: "csi_operations_seconds",
    help: "Time of each CSI call to a plugin.",
    labels: ["driver_name", "method_name", "grpc_status_code"],
  });
  const refused = metrics.counter({
    name: "holdfast_stale_calls_total",
    help: "Calls that were refused because a later one of their subject had left, or may have.",
    labels: ["driver_name", "method_name"],
  });
  const driver = boundedLabel();
  return ({ plugin, method, code, seconds, stale }) => {
    const labels = { driver_name: driver(plugin), method_name: pathOf(method) };
    calls.observe({ ...labels, grpc_status_code: statusText(code) }, seconds);
    if (stale) refused.inc(labels);
  };
};
