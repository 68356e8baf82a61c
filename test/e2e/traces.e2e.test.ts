import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import { claimVolume, makeVolume, namespace, releaseWorkload, removeVolume } from "../harness/scenario.ts";
import { shapeOnceComplete, traceShape } from "../harness/trace-shape.ts";
import {
  claimThatWaitsLong,
  claimWithFailingPlugin,
  endOfLife,
  failingTwice,
  type Pictures,
  pictureOf,
  pictures,
  waitingLong,
} from "../harness/traced-life.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const because = "holdfast.traced_because";

describe.skipIf(!root)("traces are as docs/tracing.md shows them", () => {
  let cluster: Cluster;
  let traces: OtlpReceiver;
  let shown: Pictures;

  beforeAll(async () => {
    shown = await pictures();
    traces = await startOtlpReceiver();
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, otlpEndpoint: traces.endpoint });
  });
  afterAll(async () => {
    await cluster?.stop();
    await traces?.close();
  });

  const expectAsShown = async (heading: string, traceId: string): Promise<void> => {
    const wanted = pictureOf(shown, heading);
    expect(await shapeOnceComplete(traces.spans, traceId, wanted), heading).toBe(wanted);
  };

  /** Of the last request of that name. */
  const traceOf = async (request: string): Promise<string> => {
    const ofRequest = (name: string): boolean => name.endsWith(request);
    const spans = await traces.until((all) => all.some((span) => ofRequest(span.name)), request);
    return spans.findLast((span) => ofRequest(span.name))?.traceId ?? "";
  };

  it("a claim and its release", async () => {
    await makeVolume(cluster, "calm");
    const claim = await claimVolume(cluster, "calm");
    expect(claim.state).toBe(ClaimState.CLAIM_STATE_ACTIVE);
    await expectAsShown("A claim", claim.traceId);
    await releaseWorkload(cluster, "w-calm");
    await expectAsShown("A release", await traceOf("ClaimService/ReleaseClaims"));
    await removeVolume(cluster, "calm");
  });

  it("a claim whose plugin fails twice and then works", async () => {
    await expectAsShown(failingTwice, await claimWithFailingPlugin(cluster, "rough"));
    await endOfLife(cluster, "w-rough", "rough");
  });

  it("a snapshot whose plugin fails once and then works", async () => {
    await makeVolume(cluster, "cut");
    await cluster.backend.client.setFaults([{ method: "CreateSnapshot", code: "UNAVAILABLE", times: 1 }]);
    const { snapshot } = await cluster.snapshots.createSnapshot({
      namespace,
      id: "cut-monday",
      volume: "cut",
      waitFor: { seconds: 60n, nanos: 0 },
      waitUntilReady: true,
    });
    expect(snapshot?.state).toBe(SnapshotState.SNAPSHOT_STATE_READY);
    await expectAsShown(
      "A snapshot whose plugin fails once and then works",
      await traceOf("SnapshotService/CreateSnapshot"),
    );
    // It ends with the cluster: to delete it for good takes five minutes after a cut without an answer (CUT_UNANSWERED).
  });

  it("what comes on a clock begins no trace", () => {
    // A busy machine makes any question slow.
    const told = (span: ReceivedSpan): boolean => span.status === 2 || span.attributes[because] === "slow";
    const roots = traces.spans().filter((span) => span.parentSpanId === "" && !told(span));
    const ticks =
      /LinkService\/(Serve|Transfer|Report)|AgentService\/(Stats|Inventory|Relay)|Probe|Capabilities|GetPluginInfo|NodeGetInfo/;
    expect(roots.filter((span) => ticks.test(span.name)).map((span) => traceShape([span], span.traceId))).toEqual([]);
    // None within the traces that are shown either: nothing asks a plugin what it can do on the way.
    expect(roots.filter((span) => ticks.test(span.name))).toEqual([]);
  });

  it("what follows a request by more than ten minutes is in traces of its own, which link to it", async () => {
    await expectAsShown(waitingLong, await claimThatWaitsLong(cluster, "late"));
    await endOfLife(cluster, "next-late", "late");
  });

  it("what comes on a clock is traced where a sample of it is asked for, with who was asked what", async () => {
    const sample = { HOLDFAST_TRACE_HEALTHY_QUESTIONS: "1" };
    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.node("node-a").startAgent(sample);
    await cluster.controller().kill("SIGKILL");
    await cluster.startController(sample);
    const sampled = (service: string, method: string) => (span: ReceivedSpan) =>
      span.service === service && span.attributes["csi.method"] === method && span.attributes[because] === "sampled";
    for (const [service, method, node] of [
      ["holdfast-node-agent", "Probe", "node-a"],
      ["holdfast-node-agent", "NodeGetInfo", "node-a"],
      ["holdfast-node-agent", "NodeGetCapabilities", "node-a"],
      ["holdfast-controller", "Probe", undefined],
      ["holdfast-controller", "ControllerGetCapabilities", undefined],
    ] as const) {
      const spans = await traces.until((all) => all.some(sampled(service, method)), `${service} ${method}`);
      const attributes = spans.find(sampled(service, method))?.attributes ?? {};
      expect(attributes).toMatchObject({ "csi.code": "OK", "holdfast.outcome": "done" });
      expect(attributes["holdfast.instance"], method).toMatch(/\.sock$/);
      expect(attributes["holdfast.node"], method).toBe(node);
      expect(attributes["holdfast.plugin"], method).not.toBe("");
    }
  });
});
