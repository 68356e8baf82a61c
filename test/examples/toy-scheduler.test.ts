/** examples/toy-scheduler.ts over two live nodes: it places, preempts and hands over, and each workload is one connected trace. */
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { startProcess } from "../harness/managed-process.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import { expectClean } from "../harness/scenario.ts";
import { traceTree } from "../harness/trace-tree.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");
const repo = path.resolve(import.meta.dirname, "../..");

let cluster: Cluster;
let traces: OtlpReceiver;
beforeAll(async () => {
  if (!root) return;
  traces = await startOtlpReceiver();
  cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true, otlpEndpoint: traces.endpoint });
});
afterAll(async () => {
  await cluster?.stop();
  await traces?.close();
});

const six = [
  "ControllerPublishVolume",
  "NodeStageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
  "ControllerUnpublishVolume",
];

/** The calls to plugins, in the order in which they began. */
const csiCalls = (spans: readonly ReceivedSpan[]): readonly string[] =>
  spans
    .filter(({ name, attributes }) => name.startsWith("csi.v1.") && six.includes(String(attributes["rpc.method"])))
    .sort((a, b) => (a.start < b.start ? -1 : 1))
    .map(({ attributes }) => String(attributes["rpc.method"]));

test.skipIf(!root)("one connected trace a workload, with exactly its six calls in order", async () => {
  await cluster.backend.client.clear();
  const scheduler = startProcess({
    name: "toy-scheduler",
    command: [process.execPath, path.join(repo, "examples/toy-scheduler-main.ts"), "sim.holdfast.dev"],
    env: {
      HOLDFAST_ADDRESS: cluster.address,
      HOLDFAST_OTLP_ENDPOINT: traces.endpoint,
      HOLDFAST_OTLP_PROTOCOL: "http",
    },
  });
  expect(await scheduler.exited(), scheduler.output()).toBe(0);
  const said = scheduler.output();
  expect(said).toMatch(/web runs on node-[ab] with data/);
  expect(said).toMatch(/report \(priority 9\) preempts web \(priority 1\)/);
  expect(said).toContain("the volume is deleted");
  await expectClean(cluster);

  const rootOf = (spans: readonly ReceivedSpan[], name: string) =>
    spans.find((span) => span.service === "toy-scheduler" && span.name === `workload ${name}`);
  const traceOf = (spans: readonly ReceivedSpan[], name: string): readonly ReceivedSpan[] => {
    const found = rootOf(spans, name);
    return found === undefined ? [] : spans.filter(({ traceId }) => traceId === found.traceId);
  };
  const whole = (spans: readonly ReceivedSpan[]): boolean => {
    const ids = new Set(spans.map(({ spanId }) => spanId));
    return (
      csiCalls(spans).length >= six.length &&
      spans.every(({ parentSpanId }) => parentSpanId === "" || ids.has(parentSpanId))
    );
  };
  const spans = await traces.until(
    (all) => ["web", "report"].every((name) => whole(traceOf(all, name))),
    "both workloads' traces, whole",
    60_000,
  );
  for (const name of ["web", "report"]) {
    const mine = traceOf(spans, name);
    const tree = traceTree(mine, mine[0]?.traceId ?? "");
    expect(csiCalls(mine), tree).toEqual(six);
    expect([...new Set(mine.map(({ service }) => service))].sort(), tree).toEqual(
      expect.arrayContaining(["holdfast-controller", "holdfast-node-agent", "toy-scheduler"]),
    );
    expect(
      mine.filter(({ parentSpanId }) => parentSpanId === "").map((span) => span.name),
      tree,
    ).toEqual([`workload ${name}`]);
  }
});
