/** Spans kept in memory, made with nothing but the OpenTelemetry API: enough of an SDK to see what is recorded. */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type AttributeValue,
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  type SpanOptions,
  type SpanStatus,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";

export interface RecordedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly attributes: Attributes }[];
  readonly status: SpanStatus;
  readonly ended: boolean;
}

export interface SpanRecorder {
  readonly spans: readonly RecordedSpan[];
  named(name: string): readonly RecordedSpan[];
  uninstall(): void;
}

export function installSpanRecorder(): SpanRecorder {
  const spans: RecordedSpan[] = [];
  let count = 0;
  const hex = (length: number): string => (++count).toString(16).padStart(length, "0");

  const startSpan = (name: string, options: SpanOptions = {}, parentContext: Context = context.active()): Span => {
    const parent = trace.getSpanContext(parentContext);
    const own: SpanContext = { traceId: parent?.traceId ?? hex(32), spanId: hex(16), traceFlags: 1 };
    const record = {
      name,
      kind: options.kind ?? SpanKind.INTERNAL,
      traceId: own.traceId,
      spanId: own.spanId,
      parentSpanId: parent?.spanId,
      attributes: { ...options.attributes },
      events: [] as { readonly name: string; readonly attributes: Attributes }[],
      status: { code: SpanStatusCode.UNSET } as SpanStatus,
      ended: false,
    };
    spans.push(record);
    const span: Span = {
      spanContext: () => own,
      setAttribute(key: string, value: AttributeValue) {
        record.attributes[key] = value;
        return span;
      },
      setAttributes(attributes: Attributes) {
        Object.assign(record.attributes, attributes);
        return span;
      },
      addEvent(event: string, attributes: Attributes = {}) {
        record.events.push({ name: event, attributes });
        return span;
      },
      addLink: () => span,
      addLinks: () => span,
      setStatus(status: SpanStatus) {
        record.status = status;
        return span;
      },
      updateName: () => span,
      end() {
        record.ended = true;
      },
      isRecording: () => !record.ended,
      recordException: () => undefined,
    };
    return span;
  };

  const storage = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, fn, thisArg, ...args) => storage.run(active, () => fn.call(thisArg as never, ...args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan,
      startActiveSpan: () => {
        throw new Error("not used here");
      },
    }),
  });
  return {
    spans,
    named: (name) => spans.filter((span) => span.name === name),
    uninstall() {
      trace.disable();
      context.disable();
    },
  };
}
