import { randomInt } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";
import { createJaegerApi, type JaegerApi } from "./jaeger-api.ts";
import { buildGoProgram, goModule } from "./run-go.ts";

export const jaegerVersion = "2.13.0";

/** Both versions of Jaeger are one module, numbered by its first. It brings no user interface, only a page that says so. */
const jaeger = {
  module: "github.com/jaegertracing/jaeger@v1.76.0",
  sum: "h1:sWCOOF1dr+NL0PLil7mFo3BqqQL8k4WiM7aguFbc14g=",
};
const minute = 60_000;

/** Within its own module, so that its own go.mod and go.sum say what it is built of. The first time takes several minutes. */
export const buildJaeger = async (): Promise<string> =>
  buildGoProgram("jaeger", await goModule(jaeger.module, jaeger.sum), "./cmd/jaeger", 40 * minute);

export interface Jaeger extends JaegerApi {
  /** For HOLDFAST_OTLP_ENDPOINT, by HOLDFAST_OTLP_PROTOCOL. */
  readonly otlp: { readonly grpc: string; readonly http: string };
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
  const api = createJaegerApi(`http://${host}:16686`, async (url) => {
    const response = await fetch(url);
    return { status: response.status, body: await response.text() };
  });
  const stop = async (): Promise<void> => void (await service.kill("SIGTERM"));
  try {
    await until(
      "Jaeger to answer",
      async () => {
        if (!service.running()) throw new Error(`Jaeger ended at its start:\n${service.output()}`);
        return api.services().then(
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
  return { ...api, otlp: { grpc: `http://${host}:4317`, http: `http://${host}:4318` }, stop };
};
