import {
  boolSetting,
  durationSetting,
  enumSetting,
  intSetting,
  numberSetting,
  optional,
  pathSetting,
  stringSetting,
} from "./setting.ts";

/** What every service has: how it is seen, and whether it may be reached without TLS. */
export const serviceSettings = {
  otlpEndpoint: optional(
    stringSetting({ env: "HOLDFAST_OTLP_ENDPOINT", doc: "Collector for traces; tracing is off without it." }),
  ),
  otlpCaFile: optional(
    pathSetting({
      env: "HOLDFAST_OTLP_CA_FILE",
      doc: "PEM of the authorities that the certificate of an https:// collector is checked by; without it, those of the system.",
    }),
  ),
  otlpCertFile: optional(
    pathSetting({
      env: "HOLDFAST_OTLP_CERT_FILE",
      doc: "PEM of the client certificate for an https:// collector, with its chain. Like the other two files read for each connection.",
    }),
  ),
  otlpKeyFile: optional(
    pathSetting({ env: "HOLDFAST_OTLP_KEY_FILE", doc: "PEM of the key of that client certificate." }),
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
  debugRuntime: boolSetting({
    env: "HOLDFAST_DEBUG_RUNTIME",
    doc: "Start although an option of Node shows the memory of this service: an inspector, heap snapshots, reports, core files. Only where no secret is real.",
    default: false,
  }),
} as const;

/** What a service has that asks plugins on a clock: which of these questions are traced although all is well. */
export const questionSettings = {
  traceSlowQuestion: durationSetting({
    env: "HOLDFAST_TRACE_SLOW_QUESTION",
    doc: "A question to a plugin that is asked on a clock (a probe, a list) has a span when it takes as long, or when it fails.",
    min: 1,
    max: 600_000,
    default: 1_000,
  }),
  traceHealthyQuestions: numberSetting({
    env: "HOLDFAST_TRACE_HEALTHY_QUESTIONS",
    doc: "Share of these questions that have a span although they are answered well and in time.",
    min: 0,
    max: 1,
    default: 0,
  }),
} as const;

/** Where each service keeps who did what. */
export const auditSettings = {
  auditDir: optional(
    pathSetting({
      env: "HOLDFAST_AUDIT_DIR",
      doc: "Directory of the audit; one service alone may use it. Unset: `audit` below the state directory.",
    }),
  ),
  auditFiles: intSetting({
    env: "HOLDFAST_AUDIT_FILES",
    doc: "How many files of 16 MiB each trail of the audit keeps; with the next one the oldest is removed.",
    min: 2,
    max: 100_000,
    default: 16,
  }),
} as const;
