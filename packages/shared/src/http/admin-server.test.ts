import { afterEach, expect, test } from "vitest";
import { createMemoryLogger } from "../log/logger.ts";
import { createMetrics } from "../metrics.ts";
import { createAdminServer } from "./admin-server.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function admin(notReady: () => readonly string[] = () => []) {
  const metrics = createMetrics({ labels: { service: "test" } });
  const server = createAdminServer({ log: createMemoryLogger(), metrics, notReady });
  const address = await server.listen("127.0.0.1:0");
  stops.push(server.stop);
  const get = async (path: string, init?: RequestInit) => {
    const response = await fetch(`http://${address}${path}`, init);
    return { status: response.status, body: await response.text() };
  };
  return { metrics, get };
}

test("metrics of every kind are shown; a scrape asks the gauges anew", async () => {
  const { metrics, get } = await admin();
  const calls = metrics.counter({ name: "holdfast_calls_total", help: "Calls.", labels: ["method"] });
  const seconds = metrics.histogram({
    name: "holdfast_call_seconds",
    help: "Time.",
    labels: ["method"],
    buckets: [0.1, 1],
  });
  let volumes: Record<string, number> = { a: 2, b: 1 };
  metrics.gauge({
    name: "holdfast_volumes",
    help: "Volumes.",
    labels: ["plugin"],
    collect: (gauge) => {
      for (const [plugin, count] of Object.entries(volumes)) gauge.set({ plugin }, count);
    },
  });
  const up = metrics.gauge({ name: "holdfast_up", help: "Up." });
  up.set({}, 1);
  calls.inc({ method: "Publish" });
  calls.inc({ method: "Publish" }, 2);
  seconds.observe({ method: "Publish" }, 0.5);
  const first = await get("/metrics");
  expect(first.status).toBe(200);
  expect(first.body).toContain('holdfast_calls_total{method="Publish",service="test"} 3');
  expect(first.body).toContain('holdfast_call_seconds_bucket{le="1",service="test",method="Publish"} 1');
  expect(first.body).toContain('holdfast_volumes{plugin="b",service="test"} 1');
  expect(first.body).toContain('holdfast_up{service="test"} 1');
  volumes = { a: 3 };
  const second = await get("/metrics");
  expect(second.body).toContain('holdfast_volumes{plugin="a",service="test"} 3');
  expect(second.body).not.toContain('plugin="b"');
});

test("two registries do not mix, and names follow the rule", async () => {
  const [one, two] = [createMetrics(), createMetrics()];
  one.counter({ name: "holdfast_x_total", help: "X." }).inc({});
  two.counter({ name: "holdfast_x_total", help: "X." });
  expect(await one.text()).toContain("holdfast_x_total 1");
  expect(await two.text()).toContain("holdfast_x_total 0");
  expect(() => one.counter({ name: "X", help: "" })).toThrow("holdfast_");
});

test("ready says what is missing", async () => {
  let missing: string[] = ["store: connecting"];
  const { get } = await admin(() => missing);
  expect(await get("/healthz")).toEqual({ status: 200, body: "ok\n" });
  expect(await get("/readyz")).toEqual({ status: 503, body: "store: connecting\n" });
  missing = [];
  expect(await get("/readyz")).toEqual({ status: 200, body: "ready\n" });
});

test("nothing else is served", async () => {
  const { get } = await admin();
  expect((await get("/")).status).toBe(404);
  expect((await get("/__proto__")).status).toBe(404);
  expect((await get("/metrics", { method: "POST" })).status).toBe(405);
});

test("metrics are not for the network", async () => {
  const server = createAdminServer({ log: createMemoryLogger(), metrics: createMetrics(), notReady: () => [] });
  await expect(server.listen("0.0.0.0:0")).rejects.toMatchObject({ reason: "INSECURE_ADDRESS" });
});

test("but on somebody's word, which the log and the metrics repeat", async () => {
  const [log, metrics] = [createMemoryLogger(), createMetrics()];
  const server = createAdminServer({ log, metrics, notReady: () => [], insecure: true });
  await server.listen("0.0.0.0:0");
  stops.push(server.stop);
  expect(log.lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
    expect.stringContaining("without TLS"),
  ]);
  expect(await metrics.text()).toContain('holdfast_insecure_listeners{address="0.0.0.0:0"} 1');
});
