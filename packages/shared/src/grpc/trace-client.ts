/** One span an attempt on the client; its traceparent travels in the metadata. */
import { context, propagation, SpanKind, type TextMapSetter, trace } from "@opentelemetry/api";
import { type ClientMiddleware, Metadata } from "nice-grpc-common";
import { fromClientError } from "../errors/grpc-status.ts";
import { createMethodAttributes, endSpan, inContext, isTraced } from "./trace-attributes.ts";

const setter: TextMapSetter<Metadata> = {
  set: (metadata, key, value) => {
    metadata.set(key, value);
  },
};

export function traceClientMiddleware(): ClientMiddleware {
  const tracer = trace.getTracer("holdfast.grpc");
  const describe = createMethodAttributes();
  return async function* traced(call, options) {
    const { name, attributes } = describe(call.method.path);
    const parent = context.active();
    const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
    if (!isTraced(span)) return yield* call.next(call.request, options);
    const active = trace.setSpan(parent, span);
    const metadata = Metadata(options.metadata);
    propagation.inject(active, metadata, setter);
    try {
      const response = yield* inContext(active, () => call.next(call.request, { ...options, metadata }));
      endSpan(span);
      return response;
    } catch (error) {
      endSpan(span, fromClientError(error));
      throw error;
    }
  };
}
