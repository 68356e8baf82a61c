import type { SpanOptions, Tracing } from "@holdfast/shared/tracing";
import type { Step } from "../domain/steps.ts";
import type { VolumeRecord } from "../domain/volume.ts";

/** Work that follows a request within this time belongs to its trace; later work is a trace of its own that links to it. */
const sameTraceMs = 10 * 60_000;

const noTrace = /^0+$/;

/** Runs a step within the trace of the request that set its goal. */
export const tracedStep = (
  tracing: Tracing,
  volume: VolumeRecord,
  step: Step,
  now: number,
  fn: (traceId: string | undefined) => Promise<boolean>,
): Promise<boolean> => {
  const claim = "uid" in step ? volume.claims[step.uid] : undefined;
  const trace = claim === undefined ? volume.trace : claim.trace;
  const recent = trace !== undefined && now - trace.at < sameTraceMs;
  const options: SpanOptions = {
    attributes: {
      "holdfast.volume": `${volume.namespace}/${volume.id}`,
      "holdfast.plugin": volume.plugin,
      "holdfast.step": step.do,
      "holdfast.attempt": (claim?.attempts ?? volume.attempts).count + 1,
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
    return changed;
  });
};
