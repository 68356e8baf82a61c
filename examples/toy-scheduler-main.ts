import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { startTelemetry } from "@holdfast/shared/telemetry";
import { runToyScheduler } from "./toy-scheduler.ts";

const endpoint = process.env["HOLDFAST_OTLP_ENDPOINT"];
const telemetry = await startTelemetry({
  service: "toy-scheduler",
  version: "0.1.0",
  instance: `toy-${process.pid}`,
  enabled: endpoint !== undefined,
  endpoint,
  protocol: process.env["HOLDFAST_OTLP_PROTOCOL"] === "http" ? "http" : "grpc",
  sampleRatio: 1,
  log: createMemoryLogger(),
});
try {
  await runToyScheduler({
    address: process.env["HOLDFAST_ADDRESS"] ?? "127.0.0.1:7600",
    plugin: process.argv[2] ?? "local.holdfast.dev",
    say: (line) => console.log(line),
    // A real scheduler tells the node. The toy runs nothing.
    start: async (workload, { node, path }) => console.log(`  would start ${workload} on ${node} with ${path}`),
    stop: async (workload) => console.log(`  would stop ${workload}`),
  });
} finally {
  await telemetry.shutdown();
}
