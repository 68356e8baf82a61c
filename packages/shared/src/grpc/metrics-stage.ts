/** How many calls, how long, how they ended: per method and code, which are few. */
import { Status } from "nice-grpc-common";
import { statusOf } from "../errors/grpc-status.ts";
import type { Metrics } from "../metrics.ts";
import type { CallStage } from "./call-stage.ts";

export function metricsStage(metrics: Metrics): CallStage {
  const seconds = metrics.histogram({
    name: "holdfast_grpc_server_seconds",
    help: "Time from the arrival of a call to its end.",
    labels: ["method", "code"],
  });
  return ({ path }) => {
    const start = performance.now();
    return (failure) => {
      const code = failure === undefined ? Status.OK : statusOf(failure.error);
      const labels = { method: path.slice(1), code: Status[code] ?? String(code) };
      seconds.observe(labels, (performance.now() - start) / 1000);
    };
  };
}
