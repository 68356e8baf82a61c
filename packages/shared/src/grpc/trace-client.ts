/** One span an attempt on the client; its traceparent travels in the metadata. */
import { type Context, context, propagation, SpanKind, type TextMapSetter, trace } from "@opentelemetry/api";
import type { Metadata } from "nice-grpc-common";
import { fromClientError } from "../errors/grpc-status.ts";
import { isBackgroundCall } from "./background-calls.ts";
import { createMethodAttributes, endSpan, isTraced } from "./trace-attributes.ts";

const setter: TextMapSetter<Metadata> = {
  set: (metadata, key, value) => {
    metadata.set(key, value);
  },
};

export interface ClientSpan {
  readonly context: Context;
  end(failure: { readonly error: unknown } | undefined): void;
}

/** Begins a span and writes its traceparent into the metadata. Undefined when nothing is traced. */
export type ClientSpans = (path: string, metadata: Metadata) => ClientSpan | undefined;

export function createClientSpans(): ClientSpans {
  const tracer = trace.getTracer("holdfast.grpc");
  const describe = createMethodAttributes();
  return (path, metadata) => {
    const { name, attributes } = describe(path);
    const parent = context.active();
    if (isBackgroundCall(path) && trace.getSpanContext(parent) === undefined) {
      const startTime = Date.now();
      return {
        context: parent,
        end: (failure) => {
          if (failure === undefined) return;
          const late = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes, startTime }, parent);
          endSpan(late, fromClientError(failure.error));
        },
      };
    }
    const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
    if (!isTraced(span)) return undefined;
    const active = trace.setSpan(parent, span);
    propagation.inject(active, metadata, setter);
    return {
      context: active,
      end: (failure) => endSpan(span, failure === undefined ? undefined : fromClientError(failure.error)),
    };
  };
}
