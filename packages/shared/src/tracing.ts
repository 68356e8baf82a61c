/** Spans for everything that is not a gRPC call. Knows the OpenTelemetry API only; without an SDK it costs next to nothing. */
import {
  type Attributes,
  type Context,
  context,
  INVALID_SPANID,
  INVALID_TRACEID,
  type Link,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { isAbort } from "./async/signals.ts";
import { isHoldfastError } from "./errors/holdfast-error.ts";

export interface SpanOptions {
  readonly attributes?: Attributes | undefined;
  readonly kind?: "internal" | "client" | "server" | "producer" | "consumer" | undefined;
  /** traceparent of the parent; the active span if not given. */
  readonly parent?: string | undefined;
  /** traceparents of spans that led here without being the parent. */
  readonly links?: readonly string[] | undefined;
  /** Milliseconds of the wall clock, for what is told afterwards; now if not given. */
  readonly startTime?: number | undefined;
}

/** Which of the questions that are asked on a clock have a span although all is well. */
export interface TracedQuestions {
  /** Those that take as long, or longer. */
  readonly slowMs: number;
  /** Asked once for each question, before it is asked. */
  readonly sampled: () => boolean;
}

export interface Tracing {
  /** Runs `fn` within a span; a rejection ends the span as an error with the error's reason. */
  span<T>(name: string, options: SpanOptions, fn: (span: Span) => Promise<T>): Promise<T>;
  /** To be stored with work that goes on later, or elsewhere. */
  currentTraceparent(): string | undefined;
  readonly questions: TracedQuestions;
}

const kinds: Readonly<Record<NonNullable<SpanOptions["kind"]>, SpanKind>> = {
  internal: SpanKind.INTERNAL,
  client: SpanKind.CLIENT,
  server: SpanKind.SERVER,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};

/** As the settings of a service say. */
export const tracedQuestions = (
  settings: { readonly traceSlowQuestion: number; readonly traceHealthyQuestions: number },
  random: () => number,
): TracedQuestions => ({
  slowMs: settings.traceSlowQuestion,
  sampled: () => random() < settings.traceHealthyQuestions,
});

const onlySlowOnes: TracedQuestions = { slowMs: 1_000, sampled: () => false };

export function createTracing(tracerName: string, questions: TracedQuestions = onlySlowOnes): Tracing {
  const tracer = trace.getTracer(tracerName);
  return {
    questions,
    async span(name, { attributes, kind = "internal", parent, links = [], startTime }, fn) {
      const within = contextOf(parent);
      const options = {
        kind: kinds[kind],
        ...(attributes === undefined ? {} : { attributes }),
        ...(startTime === undefined ? {} : { startTime }),
        ...(links.length === 0 ? {} : { links: links.flatMap(linkOf) }),
      };
      const span = tracer.startSpan(name, options, within);
      if (!isNamed(span.spanContext())) return await fn(span);
      try {
        return await context.with(trace.setSpan(within, span), fn, undefined, span);
      } catch (error) {
        const reason = reasonOf(error);
        span.setAttribute("error.type", reason);
        span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
        throw error;
      } finally {
        span.end();
      }
    },
    currentTraceparent() {
      const active = trace.getSpanContext(context.active());
      return active === undefined || !isNamed(active) ? undefined : formatTraceparent(active);
    },
  };
}

export function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

/** W3C trace context, any version that starts like version 00. */
export function parseTraceparent(text: string): SpanContext | undefined {
  const match = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(text);
  const [, traceId, spanId, flags, rest] = match ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  if (text.startsWith("00") && rest !== undefined) return undefined;
  const parsed: SpanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isNamed(parsed) ? parsed : undefined;
}

/** Ids of the right form were made by a tracer or came through a parser: only those of no span are left to tell. */
function isNamed({ traceId, spanId }: SpanContext): boolean {
  return traceId !== INVALID_TRACEID && spanId !== INVALID_SPANID;
}

function contextOf(parent: string | undefined): Context {
  const active = context.active();
  const parsed = parent === undefined ? undefined : parseTraceparent(parent);
  return parsed === undefined ? active : trace.setSpanContext(active, parsed);
}

function linkOf(traceparent: string): Link[] {
  const parsed = parseTraceparent(traceparent);
  return parsed === undefined ? [] : [{ context: parsed }];
}

function reasonOf(error: unknown): string {
  if (isHoldfastError(error)) return error.reason;
  if (isAbort(error)) return "CANCELLED";
  return error instanceof Error ? error.name : "UNKNOWN";
}
