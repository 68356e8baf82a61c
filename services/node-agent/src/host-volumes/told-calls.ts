/** Each call of a program of this host is a span, a line of the log, and a figure. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { HistogramMetric } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";

export interface ToldCall {
  readonly method: string;
  /** Empty: of no one volume. */
  readonly volume: string;
  readonly namespace: string;
  /** More for the log. */
  readonly fields?: Readonly<Record<string, string>>;
}

export type ToldCalls = <T>(call: ToldCall, signal: AbortSignal, run: () => Promise<T>) => Promise<T>;

export interface ToldCallsOptions {
  readonly program: string;
  /** By method and outcome. */
  readonly seconds: HistogramMetric<"method" | "outcome">;
  /** Before the method in the name of the span. */
  readonly span: string;
  /** Methods that are asked often and change nothing. */
  readonly quiet: ReadonlySet<string>;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly now: () => number;
}

export function createToldCalls(options: ToldCallsOptions): ToldCalls {
  const { program, seconds, span, quiet, log, tracing, now } = options;

  return async ({ method, volume, namespace, fields }, signal, run) => {
    const from = now();
    const ended = (outcome: string): Readonly<Record<string, unknown>> => {
      seconds.observe({ method, outcome }, (now() - from) / 1000);
      return { method, volume, ...fields, ms: Math.round(now() - from) };
    };
    const attributes = volume === "" ? {} : { "holdfast.volume": `${namespace}/${volume}` };
    try {
      const answer = await tracing.span(`${span}${method}`, { kind: "server", attributes }, run);
      log[quiet.has(method) ? "debug" : "info"](`${program} was answered`, ended("OK"));
      return answer;
    } catch (error) {
      const reason = isHoldfastError(error) ? error.reason : signal.aborted ? "CANCELLED" : "INTERNAL";
      const level = quiet.has(method) ? "debug" : reason === "INTERNAL" ? "error" : "warn";
      log[level](`${program} was refused`, { ...ended(reason), reason, error });
      throw error;
    }
  };
}
