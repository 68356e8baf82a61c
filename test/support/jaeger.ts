import { randomInt } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import type { ReceivedSpan } from "../harness/otlp-receiver.ts";
import { until } from "../harness/until.ts";
import { buildGoProgram, goModule } from "./run-go.ts";

export const jaegerVersion = "2.13.0";

/** Both versions of Jaeger are one module, numbered by its first. It brings no user interface, only a page that says so. */
const jaeger = {
  module: "github.com/jaegertracing/jaeger@v1.76.0",
  sum: "h1:sWCOOF1dr+NL0PLil7mFo3BqqQL8k4WiM7aguFbc14g=",
};
const minute = 60_000;
const hourMs = 60 * minute;

/** Within its own module, so that its own go.mod and go.sum say what it is built of. The first time takes several minutes. */
export const buildJaeger = async (): Promise<string> =>
  buildGoProgram("jaeger", await goModule(jaeger.module, jaeger.sum), "./cmd/jaeger", 40 * minute);

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

export interface Jaeger {
  /** For HOLDFAST_OTLP_ENDPOINT, by HOLDFAST_OTLP_PROTOCOL. */
  readonly otlp: { readonly grpc: string; readonly http: string };
  services(): Promise<readonly string[]>;
  operations(service: string): Promise<readonly string[]>;
  /** Undefined: it knows no such trace, or not yet. */
  trace(id: string): Promise<JaegerTrace | undefined>;
  /** As the search form of its user interface asks. */
  search(service: string, tags: TagValues): Promise<readonly JaegerTrace[]>;
  stop(): Promise<void>;
}

const configOf = (host: string): string => `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: { receivers: [otlp], exporters: [jaeger_storage_exporter] }
  telemetry:
    metrics: { level: none }
extensions:
  jaeger_storage:
    backends:
      memory: { memory: { max_traces: 10000 } }
  jaeger_query:
    storage: { traces: memory }
    http: { endpoint: "${host}:16686" }
    grpc: { endpoint: "${host}:16685" }
receivers:
  otlp:
    protocols:
      grpc: { endpoint: "${host}:4317" }
      http: { endpoint: "${host}:4318" }
exporters:
  jaeger_storage_exporter: { trace_storage: memory }
`;

/** An address of the loopback network that is nobody else's: the ports may then be the usual ones. */
const ownAddress = (): string => `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(2, 255)}`;

/** A Jaeger that keeps what it is sent in memory. */
export const startJaeger = async (binary: string, dir: string): Promise<Jaeger> => {
  const host = ownAddress();
  const config = path.join(dir, "jaeger.yaml");
  await writeFile(config, configOf(host));
  const service: ManagedProcess = startProcess({ name: "jaeger", command: [binary, "--config", config] });
  const ask = async <T>(what: string): Promise<T | undefined> => {
    const response = await fetch(`http://${host}:16686/api/${what}`);
    if (response.status === 404) return undefined;
    if (!response.ok) throw new Error(`Jaeger answers ${response.status} to ${what}: ${await response.text()}`);
    return ((await response.json()) as { readonly data: T }).data;
  };
  const stop = async (): Promise<void> => void (await service.kill("SIGTERM"));
  try {
    await until(
      "Jaeger to answer",
      async () => {
        if (!service.running()) throw new Error(`Jaeger ended at its start:\n${service.output()}`);
        return ask("services").then(
          () => true,
          () => false,
        );
      },
      60_000,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    otlp: { grpc: `http://${host}:4317`, http: `http://${host}:4318` },
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
    stop,
  };
};
