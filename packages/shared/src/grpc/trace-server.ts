/** One span a call on the server, child of the caller's by the W3C traceparent in the metadata. */
import { context, propagation, SpanKind, type TextMapGetter, trace } from "@opentelemetry/api";
import type { Metadata } from "nice-grpc-common";
import { isBackgroundCall } from "./background-calls.ts";
import type { ServerSpans } from "./call-stage.ts";
import { createMethodAttributes, endSpan, isTraced } from "./trace-attributes.ts";

const getter: TextMapGetter<Metadata> = {
  keys: (metadata) => [...metadata].map(([key]) => key),
  get: (metadata, key) => {
    const value: unknown = metadata.get(key);
    return typeof value === "string" ? value : undefined;
  },
};

/** Health probes and reflection come every few seconds and say nothing. */
const untraced = /^\/grpc\./;

export function createServerSpans(): ServerSpans {
  const tracer = trace.getTracer("holdfast.grpc");
  const describe = createMethodAttributes();
  return (path, metadata) => {
    if (untraced.test(path)) return undefined;
    const { name, attributes } = describe(path);
    const parent = propagation.extract(context.active(), metadata, getter);
    if (isBackgroundCall(path) && trace.getSpanContext(parent) === undefined) return undefined;
    const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    if (!isTraced(span)) return undefined;
    return { context: trace.setSpan(parent, span), end: (failure) => endSpan(span, failure?.error) };
  };
}
