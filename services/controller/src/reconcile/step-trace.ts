import type { SpanOptions, Tracing } from "@holdfast/shared/tracing";
import { type Span, SpanStatusCode } from "@opentelemetry/api";
import { type Attempts, noAttempts } from "../domain/outcome.ts";
import type { Step } from "../domain/steps.ts";
import type { VolumeRecord } from "../domain/volume.ts";

/** Work that follows a request within this time belongs to its trace; later work is a trace of its own that links to it. */
const sameTraceMs = 10 * 60_000;

const noTrace = /^0+$/;

/** Of what the step works on. */
const attemptsOf = (volume: VolumeRecord, step: Step): Attempts => {
  if ("uid" in step) return (volume.claims[step.uid] ?? volume).attempts;
  if (step.do === "expand") return volume.expansion?.attempts ?? noAttempts;
  if (step.do === "modify") return volume.modification?.attempts ?? noAttempts;
  if (step.do === "grow") return volume.growth?.nodes[step.node]?.attempts ?? noAttempts;
  return volume.attempts;
};

/** What a step that failed leaves to see: the reason as its status, and when it is tried again as an event. */
const markRetry = (span: Span, before: Attempts, after: Attempts, now: number): void => {
  if (after.lastError === undefined || after.count <= before.count) return;
  const { reason } = after.lastError;
  span.setAttribute("error.type", reason);
  span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
  span.addEvent("tried again later", {
    "holdfast.attempt": after.count + 1,
    "holdfast.retry_in_ms": Math.max(0, Math.round(after.nextTry - now)),
  });
};

/** Runs a step within the trace of the request that set its goal. */
export const tracedStep = (
  tracing: Tracing,
  volume: VolumeRecord,
  step: Step,
  now: number,
  fn: (traceId: string | undefined) => Promise<boolean>,
  /** Asked after a step of which there is a span. */
  after: () => Promise<VolumeRecord | undefined>,
): Promise<boolean> => {
  const claim = "uid" in step ? volume.claims[step.uid] : undefined;
  const trace = claim === undefined ? volume.trace : claim.trace;
  const recent = trace !== undefined && now - trace.at < sameTraceMs;
  const attempts = attemptsOf(volume, step);
  const options: SpanOptions = {
    attributes: {
      "holdfast.volume": `${volume.namespace}/${volume.id}`,
      "holdfast.plugin": volume.plugin,
      "holdfast.step": step.do,
      "holdfast.attempt": attempts.count + 1,
      ...(claim === undefined
        ? {}
        : { "holdfast.node": claim.node, "holdfast.workload": claim.workload, "holdfast.claim": claim.uid }),
    },
    ...(trace === undefined ? {} : recent ? { parent: trace.parent } : { links: [trace.parent] }),
  };
  return tracing.span(`reconcile ${step.do}`, options, async (span) => {
    const { traceId } = span.spanContext();
    const changed = await fn(noTrace.test(traceId) ? undefined : traceId);
    span.setAttribute("holdfast.changed", changed);
    const left = span.isRecording() ? await after() : undefined;
    if (left !== undefined) markRetry(span, attempts, attemptsOf(left, step), now);
    return changed;
  });
};
