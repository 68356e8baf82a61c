/** How many calls, how long, how they ended: per method and code, which are few. */
import { type ServerMiddleware, Status } from "nice-grpc-common";
import { statusOf } from "../errors/grpc-status.ts";
import type { Metrics } from "../metrics.ts";

export function metricsServerMiddleware(metrics: Metrics): ServerMiddleware {
  const seconds = metrics.histogram({
    name: "holdfast_grpc_server_seconds",
    help: "Time from the arrival of a call to its end.",
    labels: ["method", "code"],
  });
  return async function* measured(call, context) {
    const start = performance.now();
    let code = Status.OK;
    try {
      return yield* call.next(call.request, context);
    } catch (error) {
      code = statusOf(error);
      throw error;
    } finally {
      const method = call.method.path.slice(1);
      seconds.observe({ method, code: Status[code] ?? String(code) }, (performance.now() - start) / 1000);
    }
  };
}
