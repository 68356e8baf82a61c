import { type Client, type CompatServiceDefinition, createClientFactory, createServer, Status } from "nice-grpc";
import { deadlineMiddleware } from "nice-grpc-client-middleware-deadline";
import { retryMiddleware } from "nice-grpc-client-middleware-retry";
import { exportSpans } from "./export-spans.ts";
import { createFloorChannel, floorTls } from "./floor-tls.ts";

/** What a process of the floor makes its server and its clients of. */
export interface Equipment {
  server(): ReturnType<typeof createServer>;
  client<Definition extends CompatServiceDefinition>(definition: Definition, address: string): Client<Definition>;
}

/** nice-grpc and nothing else. */
const bare: Equipment = {
  server: () => createServer(),
  client: (definition, address) => createClientFactory().create(definition, createFloorChannel(address, floorTls)),
};

/** No call of the floor comes near it; its timer is what is paid for. */
const deadlineMs = 30_000;

/** A deadline, retries and a span for each call, from the libraries that nice-grpc's users take for it. */
const traced = async (service: string, otlpEndpoint: string): Promise<Equipment> => {
  exportSpans(service, otlpEndpoint);
  // Not before: it asks for its tracer when it is loaded, and one that is asked for too early, from CommonJS, stays empty.
  const { openTelemetryClientMiddleware, openTelemetryServerMiddleware } = await import("nice-grpc-opentelemetry");
  return {
    server: () => createServer().use(openTelemetryServerMiddleware()),
    client: (definition, address) =>
      // The first is the innermost.
      createClientFactory()
        .use(openTelemetryClientMiddleware())
        .use(retryMiddleware)
        .use(deadlineMiddleware)
        .create(definition, createFloorChannel(address, floorTls), {
          "*": { deadline: deadlineMs, retry: true, retryMaxAttempts: 2, retryableStatuses: [Status.UNAVAILABLE] },
        }),
  };
};

export const equipmentOf = async (service: string, otlpEndpoint: string | undefined): Promise<Equipment> =>
  otlpEndpoint === undefined ? bare : traced(service, otlpEndpoint);
