/**
 * A process that lets out what it is told to: by the product's own logger, tracing and metrics, and by all that a process shows of
 * itself. Its plan is a file, so that argv and environment hold their own texts alone.
 */
import { readFileSync } from "node:fs";
import { createAdminServer } from "@holdfast/shared/http/admin-server";
import { createLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { startTelemetry } from "@holdfast/shared/telemetry";
import { createTracing } from "@holdfast/shared/tracing";

export interface Plan {
  readonly otlpEndpoint: string;
  readonly logs: readonly string[];
  readonly attributes: readonly string[];
  readonly events: readonly string[];
  readonly metrics: readonly string[];
  /** Only held. */
  readonly memory: readonly string[];
}

const plan = JSON.parse(readFileSync(process.env["PLANTER_PLAN"] ?? "", "utf8")) as Plan;
const log = createLogger({ level: "info" });
const metrics = createMetrics();
const telemetry = await startTelemetry({
  service: "planter",
  version: "0",
  instance: "planter",
  enabled: true,
  endpoint: plan.otlpEndpoint,
  protocol: "http",
  sampleRatio: 1,
  log,
});

for (const text of plan.logs) log.info("planted", { text });
await createTracing("planter").span("planted", {}, async (span) => {
  for (const [at, text] of plan.attributes.entries()) span.setAttribute(`holdfast.planted_${at}`, text);
  for (const text of plan.events) span.addEvent("planted", { "holdfast.planted": text });
});
const gauge = metrics.gauge({ name: "holdfast_planted", help: "What was planted.", labels: ["text"] });
for (const text of plan.metrics) gauge.set({ text }, 1);

await telemetry.flush();
const admin = createAdminServer({ log, metrics, notReady: () => [] });
log.info("admin listening", { address: await admin.listen("127.0.0.1:0"), held: plan.memory.length });
