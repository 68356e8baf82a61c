/**
 * The only file that knows the OpenTelemetry SDK, and it loads it only when tracing is on: switched off, no span is ever made and
 * nothing has to be paid for it (a sampler that says no to everything costs as much as one that says yes).
 */
import { hostname, type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { context, DiagLogLevel, diag, propagation, trace } from "@opentelemetry/api";
import { endsWithin } from "./async/ends-within.ts";
import {
  type CollectorFiles,
  collectorAgent,
  collectorCredentials,
  refuseUnfitCollector,
} from "./grpc/collector-tls.ts";
import { isSecretName } from "./log/log-field.ts";
import type { Logger } from "./log/logger.ts";

export interface TelemetryOptions extends CollectorFiles {
  readonly service: string;
  readonly version: string;
  readonly instance: string;
  readonly enabled: boolean;
  /** Of the collector, e.g. `http://127.0.0.1:4317`. The exporter's own default if not given. */
  readonly endpoint?: string | undefined;
  readonly protocol: "grpc" | "http";
  /** Share of the traces that begin here; those that came from elsewhere follow their parent. */
  readonly sampleRatio: number;
  readonly log: Logger;
}

export interface Telemetry {
  flush(): Promise<void>;
  /** Exports what is left, within a bound. */
  shutdown(): Promise<void>;
}

/** As every service is told it by its settings. */
interface TelemetrySettings extends CollectorFiles {
  readonly otlpEndpoint?: string | undefined;
  readonly otlpProtocol: "grpc" | "http";
  readonly traceSampleRatio: number;
}

/** A part of a service: starts it by the settings, and answers how it ends. */
export const telemetryPart =
  (
    { otlpEndpoint, otlpProtocol, traceSampleRatio, ...files }: TelemetrySettings,
    who: Pick<TelemetryOptions, "service" | "version" | "instance" | "log">,
  ) =>
  async (): Promise<() => Promise<void>> => {
    const { otlpCaFile, otlpCertFile, otlpKeyFile } = files;
    const { shutdown } = await startTelemetry({
      ...who,
      ...{ otlpCaFile, otlpCertFile, otlpKeyFile },
      enabled: otlpEndpoint !== undefined,
      endpoint: otlpEndpoint,
      protocol: otlpProtocol,
      sampleRatio: traceSampleRatio,
    });
    return shutdown;
  };

const exportTimeoutMs = 5000;
/** A service that ends waits no longer for its collector, and for one that is away not at all. */
const lastExportMs = 1000;
const off: Telemetry = { flush: async () => undefined, shutdown: async () => undefined };

/** What may leave this process as a span attribute. Values are cut, and words that look like secrets never pass. */
const allowedAttribute = /^(rpc|csi|holdfast)\.[a-z0-9_.]+$|^error\.type$|^db\.(system|operation)(\.name)?$/;

export function isAllowedAttribute(name: string): boolean {
  return allowedAttribute.test(name) && !isSecretName(name);
}

/** The names that code gives to attributes are few, and each comes with every span. Those that data would make are not remembered. */
const rememberedNames = 256;

function createAllowList(): (name: string) => boolean {
  const known = new Map<string, boolean>();
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const allowed = isAllowedAttribute(name);
    if (known.size < rememberedNames) known.set(name, allowed);
    return allowed;
  };
}

export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  refuseUnfitCollector(options.enabled ? options.endpoint : undefined, options);
  if (!options.enabled) return off;
  const [
    { AsyncLocalStorageContextManager },
    { ExportResultCode, W3CTraceContextPropagator },
    { resourceFromAttributes },
    sdk,
    exporter,
  ] = await Promise.all([
    import("@opentelemetry/context-async-hooks"),
    import("@opentelemetry/core"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/sdk-trace"),
    createExporter(options),
  ]);

  const outages = reportOutages(options.log, options.endpoint);
  const batch = new sdk.BatchSpanProcessor({
    exporter: tellOutages(exporter, ExportResultCode.SUCCESS, outages),
    maxQueueSize: 8192,
    maxExportBatchSize: 512,
    scheduledDelayMillis: 1000,
    exportTimeoutMillis: exportTimeoutMs,
  });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({
      "service.name": options.service,
      "service.version": options.version,
      "service.instance.id": options.instance,
      ...hostAttributes(),
    }),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(options.sampleRatio) }),
    spanLimits: { attributeValueLengthLimit: 256, attributeCountLimit: 32, eventCountLimit: 16, linkCountLimit: 16 },
    spanProcessors: [withAllowList(batch)],
  });
  const manager = new AsyncLocalStorageContextManager();
  context.setGlobalContextManager(manager.enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);

  return {
    flush: () => provider.forceFlush({ timeoutMillis: exportTimeoutMs }),
    async shutdown() {
      const sent = provider.shutdown().catch((error: unknown) => {
        if (!outages.away()) options.log.warn("spans were lost at the end", { error });
      });
      if (!outages.away() && !(await endsWithin(sent, lastExportMs)))
        options.log.warn("spans were lost at the end: the collector did not take them in time", { ms: lastExportMs });
      trace.disable();
      propagation.disable();
      context.disable();
      diag.disable();
    },
  };
}

/**
 * Jaeger takes a span that outlives its parent for one of a clock that is wrong, and warns, unless both are of one host. Work that goes on
 * after the answer is no such thing. Its API for the user interface knows a host by `ip` alone, the other one by the name.
 */
function hostAttributes(): Record<string, string> {
  return { "host.name": hostname(), ip: outerAddress(Object.values(networkInterfaces()).flatMap((all = []) => all)) };
}

/** An address that tells this host from others; of IPv6 where there is nothing else, and then none of a single link. */
export function outerAddress(
  addresses: readonly Pick<NetworkInterfaceInfo, "address" | "family" | "internal">[],
): string {
  const outer = addresses.filter(({ address, internal }) => !internal && !/^fe[89ab]/i.test(address));
  return (outer.find(({ family }) => family === "IPv4") ?? outer[0])?.address ?? "127.0.0.1";
}

async function createExporter({ protocol, endpoint, ...files }: TelemetryOptions) {
  const common = { timeoutMillis: exportTimeoutMs };
  const withTls = endpoint?.startsWith("https://") === true;
  if (protocol === "grpc") {
    const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-grpc");
    const tls = withTls ? { credentials: collectorCredentials(files) } : {};
    return new OTLPTraceExporter(endpoint === undefined ? common : { ...common, ...tls, url: endpoint });
  }
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-http");
  const url = endpoint === undefined ? undefined : new URL("v1/traces", `${endpoint.replace(/\/+$/, "")}/`).href;
  const agent = withTls ? collectorAgent(files) : undefined;
  const tls = agent === undefined ? {} : { httpAgentOptions: () => agent };
  return new OTLPTraceExporter(url === undefined ? common : { ...common, ...tls, url });
}

interface Processor {
  onStart(...args: readonly never[]): void;
  onEnd(span: FinishedSpan): void;
}

interface FinishedSpan {
  readonly attributes: Record<string, unknown>;
  readonly events: { attributes?: Record<string, unknown> }[];
  readonly links: { attributes?: Record<string, unknown> }[];
}

/** The last gate before export. The span has ended and nobody reads it but the exporter, so that it may be cleaned in place. */
function withAllowList<P extends Processor>(next: P): P {
  const isAllowed = createAllowList();
  const clean = (attributes: Record<string, unknown> | undefined) => {
    for (const name in attributes) if (!isAllowed(name)) delete attributes[name];
  };
  const onEnd = next.onEnd.bind(next);
  next.onEnd = (span) => {
    clean(span.attributes);
    for (const event of span.events) clean(event.attributes);
    for (const link of span.links) clean(link.attributes);
    onEnd(span);
  };
  return next;
}

interface Outages {
  failed(message: string): void;
  exported(): void;
  away(): boolean;
}

/** A collector that is away makes an error every second, and may be away for good: one line when it is gone, one when it is back. */
function reportOutages(log: Logger, endpoint: string | undefined): Outages {
  const collector = endpoint === undefined ? {} : { collector: new URL(endpoint).host };
  let away = false;
  const failed = (message: string) => {
    if (away) return;
    away = true;
    log.warn("tracing: spans cannot be exported; those until it is back are lost", {
      ...collector,
      detail: textOf(message),
    });
  };
  const quiet = () => undefined;
  diag.setLogger(
    { error: failed, warn: failed, info: quiet, debug: quiet, verbose: quiet },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  return {
    failed,
    away: () => away,
    exported() {
      if (away) log.info("tracing: spans are exported again", collector);
      away = false;
    },
  };
}

/** The SDK tells an error as JSON, with a stack that says nothing here. */
function textOf(message: string): string {
  const told = /"message":("(?:[^"\\]|\\.)*")/.exec(message)?.[1];
  return (told === undefined ? message : (JSON.parse(told) as string)).slice(0, 512);
}

interface Exporter {
  export(spans: never, done: (result: { code: number; error?: Error }) => void): void;
}

function tellOutages<E extends Exporter>(exporter: E, success: number, { failed, exported }: Outages): E {
  const send = exporter.export.bind(exporter);
  exporter.export = (spans, done) =>
    send(spans, (result) => {
      if (result.code === success) exported();
      else failed(result.error?.message ?? "");
      done(result);
    });
  return exporter;
}
