import type { SpanOptions, Tracing } from "@holdfast/shared/tracing";
import { SpanStatusCode } from "@opentelemetry/api";
import { describe, expect, it } from "vitest";
import { caller, claimsInput, createWorld } from "../../../../../test/support/controller/world.ts";
import type { Attempts } from "../../domain/outcome.ts";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import type { Step } from "../../domain/steps.ts";
import { volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { tracedCutStep, tracedStep } from "./step-trace.ts";

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const recording = () => {
  const spans: { name: string; options: SpanOptions }[] = [];
  const tracing: Tracing = {
    span: async (name, options, fn) => {
      spans.push({ name, options });
      const traceId = options.parent === undefined ? "00000000000000000000000000000000" : options.parent.slice(3, 35);
      return await fn({
        spanContext: () => ({ traceId }),
        setAttribute: () => undefined,
        isRecording: () => false,
      } as never);
    },
    currentTraceparent: () => undefined,
    questions: { slowMs: 1_000, sampled: () => false },
  };
  return { spans, tracing };
};

interface Marked {
  readonly attributes: Record<string, unknown>;
  readonly events: (readonly [string, unknown])[];
  status?: unknown;
}

/** Every span is recorded, with what is put on it while it runs. */
const marking = () => {
  const spans: Marked[] = [];
  const tracing: Tracing = {
    span: async (_name, options, fn) => {
      const span: Marked = { attributes: { ...options.attributes }, events: [] };
      spans.push(span);
      return await fn({
        spanContext: () => ({ traceId: parent.slice(3, 35) }),
        setAttribute: (key: string, value: unknown) => {
          span.attributes[key] = value;
        },
        setStatus: (status: unknown) => {
          span.status = status;
        },
        addEvent: (name: string, attributes: unknown) => void span.events.push([name, attributes]),
        isRecording: () => true,
      } as never);
    },
    currentTraceparent: () => undefined,
    questions: { slowMs: 1_000, sampled: () => false },
  };
  return { spans, tracing };
};

const failedOnce = (now: number): Attempts => ({
  count: 2,
  nextTry: now + 750,
  lastError: { reason: "UNAVAILABLE", message: "it is away", at: now },
});

const retried = {
  attributes: { "holdfast.attempt": 2, "holdfast.changed": true, "error.type": "UNAVAILABLE" },
  status: { code: SpanStatusCode.ERROR, message: "UNAVAILABLE" },
  events: [["tried again later", { "holdfast.attempt": 3, "holdfast.retry_in_ms": 750 }]],
};

describe("a step that failed", () => {
  const before: Attempts = { count: 1, nextTry: 0 };
  const act = async () => true;

  it.each(["snapshot", "group"] as const)("of a %s says which try it was and when the next one is", async (kind) => {
    const record = { kind, namespace: "default", id: "monday", plugin: "csi.example", attempts: before } as CutRecord;
    const { spans, tracing } = marking();
    const run = (left: CutRecord | undefined) =>
      tracedCutStep(tracing, record, { do: "create", lane: "controller", at: 0 }, 1_000, act, async () => left);
    await run({ ...record, attempts: failedOnce(1_000) });
    await run({ ...record, attempts: { count: 0, nextTry: 0 } });
    await run(undefined);
    expect(spans[0]).toMatchObject(retried);
    expect(spans[0]?.attributes[`holdfast.${kind}`]).toBe("default/monday");
    for (const span of spans.slice(1)) expect([span.events, span.status]).toEqual([[], undefined]);
  });

  it("of a volume says the same", async () => {
    const volume = volumeRecord([], [], { attempts: before });
    const { spans, tracing } = marking();
    const step: Step = { do: "create", lane: "controller" };
    await tracedStep(tracing, volume, step, 1_000, act, async () => ({ ...volume, attempts: failedOnce(1_000) }));
    expect(spans[0]).toMatchObject(retried);
  });
});

describe("a step's span", () => {
  it("is a child of the request that set the goal for ten minutes, and then a trace of its own that links to it", async () => {
    const world = await createWorld();
    await world.makeVolume("data");
    world.backend.setFacts({ ready: false });
    const [view] = await world.commands.createClaims(claimsInput("web", "n1", ["data"]), {
      ...caller,
      traceparent: parent,
    });
    const volume = await world.volume("data");
    const step: Step = { do: "attach", lane: "controller", node: "n1", uid: view?.claim.uid ?? "" };
    const { spans, tracing } = recording();
    const ids: (string | undefined)[] = [];
    const run = (later: number) =>
      tracedStep(
        tracing,
        volume,
        step,
        world.clock.now() + later,
        async (traceId) => {
          ids.push(traceId);
          return true;
        },
        () => world.volume("data"),
      );
    await run(0);
    await run(599_000);
    await run(601_000);
    expect(spans.map((s) => s.name)).toEqual(["reconcile attach", "reconcile attach", "reconcile attach"]);
    expect(spans.map((s) => s.options.parent)).toEqual([parent, parent, undefined]);
    expect(spans[2]?.options.links).toEqual([parent]);
    expect(spans[0]?.options.attributes).toMatchObject({
      "holdfast.volume": "default/data",
      "holdfast.node": "n1",
      "holdfast.workload": "web",
      "holdfast.attempt": 1,
    });
    expect(ids).toEqual(["0af7651916cd43dd8448eb211c80319c", "0af7651916cd43dd8448eb211c80319c", undefined]);
    await world.close();
  });

  it("of a release belongs to the request that asked for it", async () => {
    const world = await createWorld();
    await world.makeVolume("data");
    await world.commands.createClaims(claimsInput("web", "n1", ["data"]), { ...caller, traceparent: parent });
    await world.idle();
    world.agents.script("release", { kind: "dropped" });
    const later = parent.replace("b7ad", "c7ad");
    const selection = { namespace: "default", workload: "web", aliases: [], claimUids: [] };
    await world.commands.releaseClaims(selection, { ...caller, traceparent: later });
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim?.trace?.parent).toBe(later);
    await world.commands.releaseClaims(selection, { ...caller, traceparent: parent });
    expect(Object.values((await world.volume("data")).claims)[0]?.trace?.parent).toBe(later);
    await world.close();
  });
});
