import { boolSetting, enumSetting, numberSetting, optional, stringSetting } from "./setting.ts";

/** What every service has: how it is seen, and whether it may be reached without TLS. */
export const serviceSettings = {
  otlpEndpoint: optional(
    stringSetting({ env: "HOLDFAST_OTLP_ENDPOINT", doc: "Collector for traces; tracing is off without it." }),
  ),
  otlpProtocol: enumSetting({
    env: "HOLDFAST_OTLP_PROTOCOL",
    doc: "How traces are sent.",
    values: ["grpc", "http"],
    default: "grpc",
  }),
  traceSampleRatio: numberSetting({
    env: "HOLDFAST_TRACE_SAMPLE_RATIO",
    doc: "Share of the traces that begin here.",
    min: 0,
    max: 1,
    default: 1,
  }),
  logLevel: enumSetting({
    env: "HOLDFAST_LOG_LEVEL",
    doc: "Lines below it are left out.",
    values: ["debug", "info", "warn", "error"],
    default: "info",
  }),
  insecure: boolSetting({
    env: "HOLDFAST_INSECURE",
    doc: "Listen beyond loopback without TLS, on a network that you trust.",
    default: false,
  }),
} as const;
