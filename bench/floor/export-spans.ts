import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler, TracerProvider } from "@opentelemetry/sdk-trace";

/** The SDK as its handbook sets it up: every span is kept, and sent in batches. Delays and sizes are those of the services. */
export const exportSpans = (service: string, endpoint: string): void => {
  const processor = new BatchSpanProcessor({
    exporter: new OTLPTraceExporter({ url: new URL("v1/traces", `${endpoint}/`).href }),
    maxQueueSize: 8192,
    maxExportBatchSize: 512,
    scheduledDelayMillis: 1000,
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(
    new TracerProvider({
      resource: resourceFromAttributes({ "service.name": service }),
      sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
      spanProcessors: [processor],
    }),
  );
};
