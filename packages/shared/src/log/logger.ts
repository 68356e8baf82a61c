/** What every part logs through. There is no global logger and no way to log an object that has not been named field by field. */
import { trace } from "@opentelemetry/api";
import { pino } from "pino";
import { logField } from "./log-field.ts";

export type LogFields = Readonly<Record<string, unknown>>;
export type LogLevel = "debug" | "info" | "warn" | "error";

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Is a line of this level kept? For whoever would make its fields in vain. */
  writes(level: LogLevel): boolean;
  /** A logger whose lines all carry these fields. */
  child(fields: LogFields): Logger;
  /** Of the logger that a service began with: another level for it and all of its children; without one its own again. */
  setLevel?(level: LogLevel | undefined): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  /** On every line: service, instance. */
  readonly fields?: LogFields;
  /** Where lines go, standard output if not given. */
  readonly destination?: { write(line: string): void };
}

export function createLogger({ level, fields = {}, destination }: LoggerOptions): Logger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    messageKey: "message",
  };
  const sink = destination === undefined ? pino(options) : pino(options, destination);
  const logger = loggerOver(
    (to, message, all) => sink[to](all, message),
    (to) => sink.isLevelEnabled(to),
    fields,
  );
  return {
    ...logger,
    setLevel: (other = level) => {
      sink.level = other;
    },
  };
}

/** The rules that hold for every sink: child fields, trace ids, fields cleaned one by one. */
export function loggerOver(
  write: (level: LogLevel, message: string, fields: Record<string, unknown>) => void,
  enabled: (level: LogLevel) => boolean,
  bound: LogFields,
): Logger {
  const cleanBound = cleaned(bound);
  const at = (level: LogLevel) => (message: string, fields?: LogFields) => {
    if (!enabled(level)) return;
    const all = { ...cleanBound, ...(fields === undefined ? undefined : cleaned(fields)) };
    const span = trace.getActiveSpan()?.spanContext();
    if (span !== undefined) Object.assign(all, { trace_id: span.traceId, span_id: span.spanId });
    write(level, message, all);
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    writes: enabled,
    child: (fields) => loggerOver(write, enabled, { ...bound, ...fields }),
  };
}

function cleaned(fields: LogFields): Record<string, unknown> {
  const clean: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) clean[key] = logField(key, value);
  }
  return clean;
}

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface MemoryLogger extends Logger {
  readonly lines: readonly LogLine[];
  clear(): void;
}

/** Keeps its lines, for tests. The same cleaning as the real one, so that a test can look for secrets. */
export function createMemoryLogger(fields: LogFields = {}): MemoryLogger {
  const lines: LogLine[] = [];
  const logger = loggerOver(
    (level, message, all) => lines.push({ level, message, fields: all }),
    () => true,
    fields,
  );
  return { ...logger, lines, clear: () => lines.splice(0) };
}
