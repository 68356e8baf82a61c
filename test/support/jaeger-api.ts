/** What Jaeger answers to its user interface, and how its traces are read. */
import type { ReceivedSpan } from "../harness/otlp-receiver.ts";

const hourMs = 3_600_000;

interface JaegerTag {
  readonly key: string;
  readonly value: string | number | boolean;
}

/** A span as Jaeger's API answers it. */
interface JaegerSpan {
  readonly traceID: string;
  readonly spanID: string;
  readonly operationName: string;
  readonly references: readonly { readonly refType: string; readonly traceID: string; readonly spanID: string }[];
  /** Microseconds. */
  readonly startTime: number;
  readonly duration: number;
  readonly tags: readonly JaegerTag[];
  readonly logs: readonly { readonly fields: readonly JaegerTag[] }[];
  readonly processID: string;
  /** What Jaeger found wrong with it: a parent that is missing, a clock that differs. */
  readonly warnings: readonly string[] | null;
}

export interface JaegerTrace {
  readonly traceID: string;
  readonly spans: readonly JaegerSpan[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string; readonly tags: readonly JaegerTag[] }>>;
}

type TagValues = Readonly<Record<string, string | number | boolean>>;

const valuesOf = (tags: readonly JaegerTag[]): TagValues =>
  Object.fromEntries(tags.map(({ key, value }) => [key, value]));

/** With all that was said with its events. */
export interface StoredSpan extends ReceivedSpan {
  readonly eventValues: readonly TagValues[];
}

/** Jaeger's spans in the form in which the OTLP receiver tells them, so that both are drawn and compared alike. */
export const spansOf = ({ spans, processes }: JaegerTrace): readonly StoredSpan[] =>
  spans.map((span) => {
    const tags = valuesOf(span.tags);
    const parent = span.references.find(({ refType }) => refType === "CHILD_OF");
    const start = BigInt(span.startTime) * 1000n;
    return {
      service: processes[span.processID]?.serviceName ?? "",
      traceId: span.traceID,
      spanId: span.spanID,
      parentSpanId: parent?.spanID ?? "",
      name: span.operationName,
      start,
      end: start + BigInt(span.duration) * 1000n,
      attributes: tags,
      status: tags["error"] === true ? 2 : 0,
      links: span.references
        .filter(({ refType }) => refType === "FOLLOWS_FROM")
        .map(({ traceID, spanID }) => ({ traceId: traceID, spanId: spanID })),
      events: span.logs.map(({ fields }) => String(valuesOf(fields)["event"])),
      eventValues: span.logs.map(({ fields }) => valuesOf(fields)),
    };
  });

export interface JaegerApi {
  services(): Promise<readonly string[]>;
  operations(service: string): Promise<readonly string[]>;
  /** Undefined: it knows no such trace, or not yet. */
  trace(id: string): Promise<JaegerTrace | undefined>;
  /** As the search form of its user interface asks. */
  search(service: string, tags: TagValues): Promise<readonly JaegerTrace[]>;
}

/** Of the whole address, by whatever way leads there. */
export type Get = (url: string) => Promise<{ readonly status: number; readonly body: string }>;

export const createJaegerApi = (base: string, get: Get): JaegerApi => {
  const ask = async <T>(what: string): Promise<T | undefined> => {
    const { status, body } = await get(`${base}/api/${what}`);
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`Jaeger answers ${status} to ${what}: ${body}`);
    return (JSON.parse(body) as { readonly data: T }).data;
  };
  return {
    services: async () => (await ask<readonly string[] | null>("services")) ?? [],
    operations: async (name) =>
      (await ask<readonly string[] | null>(`services/${encodeURIComponent(name)}/operations`)) ?? [],
    trace: async (id) => (await ask<readonly JaegerTrace[] | null>(`traces/${id}`))?.[0],
    search: async (name, tags) => {
      const query = new URLSearchParams({
        service: name,
        tags: JSON.stringify(Object.fromEntries(Object.entries(tags).map(([key, value]) => [key, String(value)]))),
        // Microseconds; also what a controller sent whose clock is ahead.
        start: String((Date.now() - hourMs) * 1000),
        end: String((Date.now() + hourMs) * 1000),
        limit: "100",
      });
      return (await ask<readonly JaegerTrace[] | null>(`traces?${query}`)) ?? [];
    },
  };
};
