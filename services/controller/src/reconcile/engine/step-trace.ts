import type { SpanOptions, Tracing } from "@holdfast/shared/tracing";
import { type Span, SpanStatusCode } from "@opentelemetry/api";
import { type Attempts, noAttempts } from "../../domain/outcome.ts";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import type { CutStep } from "../../domain/snapshot/snapshot-steps.ts";
import type { Step } from "../../domain/steps.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

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

interface TracedWork {
  /** Of the span. */
  readonly name: string;
  readonly attributes: NonNullable<SpanOptions["attributes"]>;
  /** Of the request that set the goal. */
  readonly trace: VolumeRecord["trace"];
  readonly attempts: Attempts;
  readonly now: number;
}

type Act = (traceId: string | undefined) => Promise<boolean>;

/** `after`: the attempts as the step has left them, asked when there is a span. */
const traced = (
  tracing: Tracing,
  { name, attributes, trace, attempts, now }: TracedWork,
  act: Act,
  after: () => Promise<Attempts | undefined>,
): Promise<boolean> => {
  const recent = trace !== undefined && now - trace.at < sameTraceMs;
  const options: SpanOptions = {
    attributes: { ...attributes, "holdfast.attempt": attempts.count + 1 },
    ...(trace === undefined ? {} : recent ? { parent: trace.parent } : { links: [trace.parent] }),
  };
  return tracing.span(name, options, async (span) => {
    const { traceId } = span.spanContext();
    const changed = await act(noTrace.test(traceId) ? undefined : traceId);
    span.setAttribute("holdfast.changed", changed);
    const left = span.isRecording() ? await after() : undefined;
    if (left !== undefined) markRetry(span, attempts, left, now);
    return changed;
  });
};

/** Runs a step of a volume within the trace of the request that set its goal. */
export const tracedStep = (
  tracing: Tracing,
  volume: VolumeRecord,
  step: Step,
  now: number,
  act: Act,
  /** Asked after a step of which there is a span. */
  after: () => Promise<VolumeRecord | undefined>,
): Promise<boolean> => {
  const claim = "uid" in step ? volume.claims[step.uid] : undefined;
  const attributes = {
    "holdfast.volume": `${volume.namespace}/${volume.id}`,
    "holdfast.plugin": volume.plugin,
    "holdfast.step": step.do,
    ...(claim === undefined
      ? {}
      : { "holdfast.node": claim.node, "holdfast.workload": claim.workload, "holdfast.claim": claim.uid }),
  };
  const trace = claim === undefined ? volume.trace : claim.trace;
  const work = { name: `reconcile ${step.do}`, attributes, trace, attempts: attemptsOf(volume, step), now };
  return traced(tracing, work, act, async () => {
    const left = await after();
    return left === undefined ? undefined : attemptsOf(left, step);
  });
};

/** The same of a snapshot or a group. */
export const tracedCutStep = (
  tracing: Tracing,
  record: CutRecord,
  step: CutStep,
  now: number,
  act: Act,
  after: () => Promise<CutRecord | undefined>,
): Promise<boolean> => {
  const attributes = {
    [`holdfast.${record.kind}`]: `${record.namespace}/${record.id}`,
    ...(record.kind === "snapshot" ? { "holdfast.volume": `${record.namespace}/${record.volume}` } : {}),
    "holdfast.plugin": record.plugin,
    "holdfast.step": step.do,
  };
  const { kind, trace, attempts } = record;
  const work = { name: `reconcile ${kind} ${step.do}`, attributes, trace, attempts, now };
  return traced(tracing, work, act, async () => (await after())?.attempts);
};
