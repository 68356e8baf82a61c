import { createMetrics } from "@holdfast/shared/metrics";
import { expect, test } from "vitest";
import { createCallMetric } from "./call-metrics.ts";

test("W45 a call is counted under the name and the labels that dashboards for CSI know", async () => {
  const metrics = createMetrics();
  const onCall = createCallMetric(metrics);
  onCall({ plugin: "csi.example", method: "ControllerPublishVolume", code: "OK", seconds: 0.2 });
  onCall({ plugin: "csi.example", method: "CreateVolume", code: "DEADLINE_EXCEEDED", seconds: 60 });
  const text = await metrics.text();
  for (const labels of [
    'driver_name="csi.example",method_name="/csi.v1.Controller/ControllerPublishVolume",grpc_status_code="OK"',
    'driver_name="csi.example",method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="DeadlineExceeded"',
  ])
    expect(text).toContain(`csi_operations_seconds_count{${labels}} 1`);
});

test("a call that was refused as stale is counted beside", async () => {
  const metrics = createMetrics();
  const onCall = createCallMetric(metrics);
  for (const stale of [true, false, true])
    onCall({ plugin: "p", method: "CreateVolume", code: "ABORTED", seconds: 0, stale });
  const labels = 'driver_name="p",method_name="/csi.v1.Controller/CreateVolume"';
  expect(await metrics.text()).toContain(`holdfast_stale_calls_total{${labels}} 2`);
});

test("names of plugins are bounded, whatever they call themselves", async () => {
  const metrics = createMetrics();
  const onCall = createCallMetric(metrics);
  for (let n = 0; n < 400; n += 1) onCall({ plugin: `p${n}`, method: "Probe", code: "OK", seconds: 0 });
  const counts = (await metrics.text()).split("\n").filter((line) => line.startsWith("csi_operations_seconds_count"));
  expect(counts).toHaveLength(201);
  expect(counts.at(-1)).toContain('driver_name="other"');
  expect(counts.at(-1)).toMatch(/ 200$/);
});
