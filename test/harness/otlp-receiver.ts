import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** One finished span, as an OTLP exporter sent it. */
export interface ReceivedSpan {
  readonly service: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** 0 unset, 1 ok, 2 error. */
  readonly status: number;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly events: readonly string[];
}

export interface OtlpReceiver {
  /** For HOLDFAST_OTLP_ENDPOINT with HOLDFAST_OTLP_PROTOCOL=http. */
  readonly endpoint: string;
  spans(): readonly ReceivedSpan[];
  /** Every body as it came, to look for what must not be there. */
  raw(): string;
  /** Waits until the spans satisfy; rejects with their names when that does not happen. */
  until(
    done: (spans: readonly ReceivedSpan[]) => boolean,
    what: string,
    timeoutMs?: number,
  ): Promise<readonly ReceivedSpan[]>;
  close(): Promise<void>;
}

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: string | number;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}

interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly OtlpAttribute[];
  readonly status?: { readonly code?: number };
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly events?: readonly { readonly name: string }[];
}

interface OtlpBody {
  readonly resourceSpans?: readonly {
    readonly resource?: { readonly attributes?: readonly OtlpAttribute[] };
    readonly scopeSpans?: readonly { readonly spans?: readonly OtlpSpan[] }[];
  }[];
}

const plain = (value: OtlpValue): string | number | boolean =>
  value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue ?? 0);

const attributesOf = (list: readonly OtlpAttribute[] = []): Record<string, string | number | boolean> =>
  Object.fromEntries(list.map((a) => [a.key, plain(a.value)]));

const spansOf = (body: OtlpBody): readonly ReceivedSpan[] =>
  (body.resourceSpans ?? []).flatMap((resource) => {
    const service = String(attributesOf(resource.resource?.attributes)["service.name"] ?? "");
    return (resource.scopeSpans ?? []).flatMap((scope) =>
      (scope.spans ?? []).map((span) => ({
        service,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        name: span.name,
        start: BigInt(span.startTimeUnixNano),
        end: BigInt(span.endTimeUnixNano),
        attributes: attributesOf(span.attributes),
        status: span.status?.code ?? 0,
        links: span.links ?? [],
        events: (span.events ?? []).map((e) => e.name),
      })),
    );
  });

/** An OTLP/HTTP (JSON) endpoint on loopback that keeps what it is sent. */
export const startOtlpReceiver = async (): Promise<OtlpReceiver> => {
  const spans: ReceivedSpan[] = [];
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8");
      bodies.push(text);
      if (request.url === "/v1/traces") spans.push(...spansOf(JSON.parse(text) as OtlpBody));
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans: () => spans,
    raw: () => bodies.join("\n"),
    until: async (done, what, timeoutMs = 20_000) => {
      const start = performance.now();
      while (!done(spans)) {
        if (performance.now() - start > timeoutMs)
          throw new Error(
            `no trace with ${what}; have:\n${spans.map((s) => `${s.traceId} ${s.service} ${s.name}`).join("\n")}`,
          );
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
      return spans;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
};
