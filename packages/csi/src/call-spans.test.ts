import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { isBackgroundCall } from "@holdfast/shared/grpc/background-calls";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Answered, createCallSpans, type TracedCall } from "./call-spans.ts";
import { methodNames, methods, pathOf } from "./methods.ts";
import { type Code, verdictOf } from "./outcome.ts";
import { installSpanRecorder, type SpanRecorder } from "./testing/span-recorder.ts";

let recorder: SpanRecorder;
beforeEach(() => {
  recorder = installSpanRecorder();
});
afterEach(() => recorder.uninstall());

const answer = (code: Code): Answered<object> =>
  code === "OK"
    ? { outcome: { outcome: "done", value: {} }, code }
    : {
        outcome: {
          outcome: "unknown",
          failure: { method: "Probe", plugin: "p", code, verdict: verdictOf("read", code), message: "", sent: true },
        },
        code,
      };

const call = (more: Partial<TracedCall> = {}): TracedCall => ({ signal: new AbortController().signal, ...more });

const rig = ({ sampled = false } = {}) => {
  const clock = createManualClock();
  const tracing = createTracing("test", { slowMs: 250, sampled: () => sampled });
  const spans = createCallSpans({ plugin: () => "p", instance: "alloc-1", node: "n1" }, { tracing, clock });
  const after = (ms: number, code: Code = "OK") => {
    return async () => {
      await clock.advance(ms);
      return answer(code);
    };
  };
  const because = () => recorder.spans.map(({ attributes }) => attributes["holdfast.traced_because"]);
  return { tracing, spans, after, because };
};

it("a question on a clock has a span when it failed or took long, and none else", async () => {
  const { spans, after, because } = rig();
  await spans.of("Probe", call(), after(249));
  await spans.of("ListVolumes", call(), after(1, "UNIMPLEMENTED"));
  expect(because()).toEqual([]);
  await spans.of("Probe", call(), after(250));
  await spans.of("Probe", call(), after(1, "INTERNAL"));
  expect(because()).toEqual(["slow", "failed"]);
  expect(recorder.spans).toMatchObject([
    { name: "csi.v1.Identity/Probe", ended: true, attributes: { "csi.method": "Probe", "csi.code": "OK" } },
    { attributes: { "csi.code": "INTERNAL", "error.type": "INTERNAL", "holdfast.outcome": "unknown" } },
  ]);
});

it("a question that its caller gave up has none: it says nothing of the plugin", async () => {
  const { spans, after, because } = rig();
  await spans.of("Probe", call({ signal: AbortSignal.abort() }), after(1, "CANCELLED"));
  expect(because()).toEqual([]);
});

it("a question of the sample has its span while it is asked, so that the plugin's own comes below it", async () => {
  const { spans, after, tracing, because } = rig({ sampled: true });
  let within: string | undefined;
  await spans.of("NodeGetInfo", call(), () => {
    within = tracing.currentTraceparent();
    return after(1)();
  });
  expect(because()).toEqual(["sampled"]);
  expect(within).toContain(recorder.spans[0]?.spanId);
});

it("within a trace, and for a call that changes something, there is always a span, and no reason for it", async () => {
  const { spans, after, tracing, because } = rig();
  await spans.of("DeleteVolume", call(), after(1));
  await tracing.span("above", {}, () => spans.of("Probe", call(), after(1)));
  expect(recorder.spans.map(({ name }) => name)).toEqual([
    "csi.v1.Controller/DeleteVolume",
    "above",
    "csi.v1.Identity/Probe",
  ]);
  expect(because()).toEqual([undefined, undefined, undefined]);
});

it("names the instance, the volume in both names, and the subject's node before its own", async () => {
  const { spans, after } = rig();
  const subject = { namespace: "ns", volume: "v", node: "n2", claim: "c", attempt: 3 };
  await spans.of("ControllerPublishVolume", call({ subject, volumeId: "ext-v" }), after(1));
  await spans.of("NodeGetVolumeStats", call(), after(1, "INTERNAL"));
  expect(recorder.spans[0]?.attributes).toMatchObject({
    "holdfast.plugin": "p",
    "holdfast.instance": "alloc-1",
    "holdfast.volume": "ns/v",
    "csi.volume_id": "ext-v",
    "holdfast.node": "n2",
    "holdfast.claim": "c",
    "holdfast.attempt": 3,
  });
  expect(recorder.spans[1]?.attributes["holdfast.node"]).toBe("n1");
});

it("every question of CSI, and nothing that changes anything, may be asked without a trace", () => {
  const background = methodNames.filter((method) => isBackgroundCall(pathOf(method)));
  const streams = ["GetMetadataAllocated", "GetMetadataDelta"];
  const questions = methodNames.filter((method) => methods[method].callKind === "read" && !streams.includes(method));
  expect(background).toEqual(questions);
});
