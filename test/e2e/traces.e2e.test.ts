import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../harness/otlp-receiver.ts";
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
    const roots = traces.spans().filter((span) => span.parentSpanId === "" && span.status !== 2);
    const ticks =
      /LinkService\/(Serve|Transfer|Report)|AgentService\/(Stats|Inventory|Relay)|Probe|Capabilities|GetPluginInfo|NodeGetInfo/;
    expect(roots.filter((span) => ticks.test(span.name)).map((span) => traceShape([span], span.traceId))).toEqual([]);
    // None within the traces that are shown either: nothing asks a plugin what it can do on the way.
    expect(traces.spans().filter((span) => ticks.test(span.name) && span.parentSpanId === "")).toEqual([]);
  });

  it("what follows a request by more than ten minutes is in traces of its own, which link to it", async () => {
    await expectAsShown(waitingLong, await claimThatWaitsLong(cluster, "late"));
    await endOfLife(cluster, "next-late", "late");
  });
});
