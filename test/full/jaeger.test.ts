/**
 * A real Jaeger, of the version that docker-compose.yml starts, is sent what the services send, by gRPC from the controller and by HTTP
 * from the agent, and is asked as its user interface asks. What it has stored is drawn and compared with docs/tracing.md.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { isAllowedAttribute } from "@holdfast/shared/telemetry";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import type { ReceivedSpan } from "../harness/otlp-receiver.ts";
import { shapeOnceComplete } from "../harness/trace-shape.ts";
import {
  claimThatWaitsLong,
  claimWithFailingPlugin,
  endOfLife,
  failingTwice,
  pictureOf,
  pictures,
  waitingLong,
} from "../harness/traced-life.ts";
import { full } from "../support/full.ts";
import { buildJaeger, type Jaeger, startJaeger } from "../support/jaeger.ts";
import { type JaegerTrace, spansOf } from "../support/jaeger-api.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: the traces in Jaeger are of real mounts, which need root");

const controller = "holdfast-controller";
const agent = "holdfast-node-agent";

describe.runIf(full && root)("traces as Jaeger stores them", () => {
  let dir: string;
  let jaeger: Jaeger;
  let cluster: Cluster;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-jaeger-"));
    jaeger = await startJaeger(await buildJaeger(), dir);
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      controllerEnv: { HOLDFAST_OTLP_ENDPOINT: jaeger.otlp.grpc, HOLDFAST_OTLP_PROTOCOL: "grpc" },
      agentEnv: { HOLDFAST_OTLP_ENDPOINT: jaeger.otlp.http, HOLDFAST_OTLP_PROTOCOL: "http" },
    });
  }, 3_600_000);
  afterAll(async () => {
    await cluster?.stop();
    await jaeger?.stop();
    await rm(dir ?? "/nonexistent", { recursive: true, force: true });
  });

  const ofWorkload = (workload: string): Promise<readonly JaegerTrace[]> =>
    jaeger.search(controller, { "holdfast.workload": workload });

  /** What is found by the workload's name, with the request that it follows. */
  const lifeOf = async (workload: string, traceId: string): Promise<readonly ReceivedSpan[]> => {
    const found = await ofWorkload(workload);
    const request = found.some(({ traceID }) => traceID === traceId) ? undefined : await jaeger.trace(traceId);
    return [...found, ...(request === undefined ? [] : [request])].flatMap(spansOf);
  };

  const expectNothingWrong = (traces: readonly JaegerTrace[]): void => {
    for (const { spans } of traces)
      for (const { operationName, tags, warnings } of spans) {
        expect(warnings, operationName).toBeNull();
        const ofJaeger = /^(otel\.(scope\.name|status_(code|description))|span\.kind|error)$/;
        const strange = tags.map(({ key }) => key).filter((key) => !isAllowedAttribute(key) && !ofJaeger.test(key));
        expect(strange, operationName).toEqual([]);
      }
  };

  test("a claim whose plugin fails twice and then works: one trace, found by its workload", async () => {
    const traceId = await claimWithFailingPlugin(cluster, "rough");
    const wanted = pictureOf(await pictures(), failingTwice);
    expect(await shapeOnceComplete(() => lifeOf("w-rough", traceId), traceId, wanted)).toBe(wanted);

    const found = await ofWorkload("w-rough");
    expect(found.map(({ traceID }) => traceID)).toEqual([traceId]);
    expectNothingWrong(found);
    const spans = found.flatMap(spansOf);
    const failed = spans.filter(({ status }) => status === 2).sort((a, b) => Number(a.start - b.start));
    // The first permit leaves before the step that waits for its answer has begun.
    expect(failed.map(({ service, name }) => `${service} ${name}`).sort()).toEqual([
      `${controller} reconcile offer`,
      `${controller} reconcile offer`,
      `${agent} csi.v1.Node/NodeStageVolume`,
      `${agent} csi.v1.Node/NodeStageVolume`,
    ]);
    for (const { attributes } of failed)
      expect(attributes).toMatchObject({
        "error.type": "UNAVAILABLE",
        "otel.status_code": "ERROR",
        "otel.status_description": "UNAVAILABLE",
        "holdfast.volume": "test/rough",
        "holdfast.node": "node-a",
        "holdfast.plugin": "sim.holdfast.dev",
      });
    const retries = failed.flatMap(({ eventValues }) => eventValues);
    expect(retries).toEqual(
      [2, 3].map((attempt) => ({
        event: "tried again later",
        "holdfast.attempt": attempt,
        "holdfast.retry_in_ms": expect.any(Number),
      })),
    );
    for (const reached of [
      await jaeger.search(agent, { "holdfast.volume": "test/rough", "error.type": "UNAVAILABLE" }),
      await jaeger.search(controller, { "holdfast.volume": "test/rough", "error.type": "UNAVAILABLE" }),
    ])
      expect(reached.map(({ traceID }) => traceID)).toEqual([traceId]);
    await endOfLife(cluster, "w-rough", "rough");
  });

  test("a claim that waited for more than ten minutes: traces that refer to the request", async () => {
    const traceId = await claimThatWaitsLong(cluster, "late");
    const wanted = pictureOf(await pictures(), waitingLong);
    expect(await shapeOnceComplete(() => lifeOf("next-late", traceId), traceId, wanted)).toBe(wanted);
    await endOfLife(cluster, "next-late", "late");
  });

  test("its lists have both services, and operations named as in the pictures", async () => {
    expect([...(await jaeger.services())].sort()).toEqual([controller, agent]);
    const drawn = [...(await pictures())].flatMap(([heading, picture]) =>
      heading === failingTwice || heading === waitingLong ? picture.split("\n") : [],
    );
    for (const [service, prefix] of [
      [controller, "controller: "],
      [agent, "node-agent: "],
    ] as const) {
      const names = drawn.flatMap((line) => new RegExp(`^ *${prefix}(.+?)(?: [#✗↶].*)?$`).exec(line)?.[1] ?? []);
      expect(names.length).toBeGreaterThan(2);
      expect(await jaeger.operations(service)).toEqual(expect.arrayContaining([...new Set(names)]));
    }
  });
});
