/**
 * Starting in order and stopping in reverse. With the services' main.ts the only place that touches `process`.
 *
 * C1 What was started is stopped exactly once, the last first. C2 Each stop is bounded, and a failing one does not spare the others.
 * C3 A failed start stops what had been started before it.
 */
import { endsWithin } from "./async/ends-within.ts";
import { isAbort } from "./async/signals.ts";
import type { ConfigSchema } from "./config/config.ts";
import { createDebugSwitch } from "./log/debug-switch.ts";
import type { Logger } from "./log/logger.ts";
import { exitCodes, type SettingValue, startFailure } from "./start-failure.ts";

export type Stop = () => Promise<void> | void;

// biome-ignore lint/suspicious/noConfusingVoidType: a part with nothing to stop need not say so
type Started = Stop | void;

export interface Lifecycle {
  /** Aborted when the end begins, before the first part is stopped. */
  readonly signal: AbortSignal;
  /** `start` answers how to stop the part again. */
  start(name: string, start: (signal: AbortSignal) => Promise<Started> | Started): Promise<void>;
  stop(): Promise<void>;
}

export interface LifecycleOptions {
  readonly log: Logger;
  /** For each part. */
  readonly stopTimeoutMs?: number;
}

export function createLifecycle({ log, stopTimeoutMs = 15_000 }: LifecycleOptions): Lifecycle {
  const ending = new AbortController();
  const started: { readonly name: string; readonly stop: Stop }[] = [];
  let stopping: Promise<void> | undefined;

  const stopAll = async () => {
    ending.abort(new DOMException("the service is stopping", "AbortError"));
    for (let part = started.pop(); part !== undefined; part = started.pop()) {
      await stopPart(part.name, part.stop); // C1
    }
  };

  const stopPart = async (name: string, stop: Stop) => {
    try {
      if (!(await endsWithin(Promise.resolve().then(stop), stopTimeoutMs)))
        log.error("a part did not stop in time", { part: name, timeout_ms: stopTimeoutMs });
    } catch (error) {
      log.error("a part failed to stop", { part: name, error }); // C2
    }
  };

  const stop = () => {
    stopping ??= stopAll();
    return stopping;
  };

  return {
    signal: ending.signal,
    async start(name, start) {
      ending.signal.throwIfAborted();
      try {
        const stopIt = await start(ending.signal);
        if (stopIt !== undefined) started.push({ name, stop: stopIt });
      } catch (error) {
        // Whoever started it says so, once, in the words of start-failure.ts.
        log.debug("a part failed to start", { part: name, error });
        await stop(); // C3
        throw error;
      }
      // The end began while this part was starting: nobody else would stop it now.
      if (ending.signal.aborted) {
        await stopping;
        await stopAll();
        ending.signal.throwIfAborted();
      }
    },
    stop,
  };
}

/** How long a service that got SIGUSR2 logs every line. */
const debugLastsMs = 15 * 60_000;

/** The part of `process` that is needed, so that tests can play it. */
export interface ProcessPort {
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  off(event: string, listener: (...args: unknown[]) => void): unknown;
  exit(code: number): void;
}

export interface RunContext {
  /** Takes the place of the first logger, which knows no setting. */
  setLogger(log: Logger): void;
  /** By their values a failure of the start names the setting to correct. */
  setConfig(schema: ConfigSchema, config: Readonly<Record<string, unknown>>): void;
}

type Running = Started | { stop(): Promise<void> | void };

/**
 * The whole of a service's main.ts: `main` starts it and answers how to stop it. SIGTERM and SIGINT stop it, a second one ends it at
 * once; SIGUSR2 makes the log tell every line for a while. A start that fails is one line in the log and ends with the exit code of its
 * reason, a fault that nobody caught with 70.
 */
export async function runUntilSignal(
  firstLog: Logger,
  main: (signal: AbortSignal, run: RunContext) => Promise<Running>,
  proc: ProcessPort = process as unknown as ProcessPort,
): Promise<void> {
  const ending = new AbortController();
  let log = firstLog;
  let settings: readonly SettingValue[] = [];
  let signals = 0;
  let end: (value: undefined) => void = () => undefined;
  const ended = new Promise<undefined>((resolve) => {
    end = resolve;
  });

  const debug = createDebugSwitch(debugLastsMs);

  const onSignal = () => {
    signals += 1;
    if (signals > 1) proc.exit(exitCodes.interrupted);
    ending.abort(new DOMException("the process was asked to end", "AbortError"));
    end(undefined);
  };
  const onFault = (error: unknown) => {
    report(error);
    proc.exit(exitCodes.software);
  };
  const report = (error: unknown) => log.error("a fault that nobody caught", { error });

  const listeners = {
    SIGTERM: onSignal,
    SIGINT: onSignal,
    // Without a listener of its own Node opens the inspector on it: all of a service's memory, and its rights, for a local port.
    // `--disable-sigusr1` covers the moment before this line.
    SIGUSR1: () => undefined,
    SIGUSR2: () => debug.flip(log),
    uncaughtException: onFault,
    unhandledRejection: onFault,
  };
  for (const [event, listener] of Object.entries(listeners)) proc.on(event, listener);
  let code: number = exitCodes.ok;
  let started = false;
  try {
    const running = await main(ending.signal, {
      setLogger: (given) => {
        log = given;
      },
      setConfig: (schema, config) => {
        settings = Object.entries(schema).map(([name, { env }]) => ({ env, value: config[name] }));
      },
    });
    started = true;
    await ended;
    await (typeof running === "function" ? running() : running?.stop());
  } catch (error) {
    const asked = ending.signal.aborted && isAbort(error);
    if (started && !asked) {
      report(error);
      code = exitCodes.software;
    } else if (!asked) {
      const failure = startFailure(error, settings);
      log.error(failure.message, failure.fields);
      log.debug("where the start failed", { error });
      code = failure.exitCode;
    }
  } finally {
    debug.end();
    for (const [event, listener] of Object.entries(listeners)) proc.off(event, listener);
  }
  proc.exit(code);
}
