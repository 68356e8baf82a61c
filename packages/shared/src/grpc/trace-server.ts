/** One span a call on the server, child of the caller's by the W3C traceparent in the metadata. */
import { context, propagation, SpanKind, type TextMapGetter, trace } from "@opentelemetry/api";
import type { Metadata, ServerMiddleware } from "nice-grpc-common";
import { createMethodAttributes, endSpan, inContext, isTraced } from "./trace-attributes.ts";

const getter: TextMapGetter<Metadata> = {
  keys: (metadata) => [...metadata].map(([key]) => key),
  get: (metadata, key) => {
    const value: unknown = metadata.get(key);
    return typeof value === "string" ? value : undefined;
  },
};

/** Health probes and reflection come every few seconds and say nothing. */
const untraced = /^\/grpc\./;

export function traceServerMiddleware(): ServerMiddleware {
  const tracer = trace.getTracer("holdfast.grpc");
  const describe = createMethodAttributes();
  return async function* traced(call, callContext) {
    const { path } = call.method;
    if (untraced.test(path)) return yield* call.next(call.request, callContext);
    const { name, attributes } = describe(path);
    const parent = propagation.extract(context.active(), callContext.metadata, getter);
    const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    if (!isTraced(span)) return yield* call.next(call.request, callContext);
    try {
      const response = yield* inContext(trace.setSpan(parent, span), () => call.next(call.request, callContext));
      endSpan(span);
      return response;
    } catch (error) {
      endSpan(span, error);
      throw error;
    }
  };
}
