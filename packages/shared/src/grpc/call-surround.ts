/**
 * What every call that is served here goes through, whatever it came over: stages, turns, what is too much at once, and the end of all of
 * them. A server has one; calls over an agent's stream go through one too.
 *
 * S1 After stop() has been called no new call is served. S2 stop() ends within graceMs and a moment, whatever handlers do.
 */
import { randomUUID } from "node:crypto";
import type { ServerMiddleware } from "nice-grpc";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import type { Access } from "./access.ts";
import type { CallExtension } from "./call-context.ts";
import { callMiddleware } from "./call-middleware.ts";
import type { CallStage } from "./call-stage.ts";
import { createCallTurns } from "./call-turns.ts";
import { deadlineStage } from "./deadline-server.ts";
import { type IdentityReader, identityFromMetadata } from "./identity.ts";
import { identityStage } from "./identity-stage.ts";
import { logStage, shuttingDownReason } from "./log-stage.ts";
import { metricsStage } from "./metrics-stage.ts";
import { overloadStage } from "./overload-stage.ts";
import { createServerGauges } from "./server-metrics.ts";
import type { StrangerCalls } from "./stranger-calls.ts";
import { strangerStage } from "./stranger-stage.ts";
import { createServerSpans } from "./trace-server.ts";

export interface CallLimits {
  /** Calls on one connection that their caller waits for; waiting ones and streams count. A client holds back those above. */
  readonly maxConcurrentStreams?: number;
  /** Unary calls in flight, of all callers and of one; those above are refused with OVERLOADED. */
  readonly maxInFlight?: number;
  readonly maxInFlightPerCaller?: number;
  /** Calls and streams that one caller begins in a second. Without it there is no bound. */
  readonly maxPerSecondPerCaller?: number;
  /** Streams open at once, of all callers and of one. */
  readonly maxOpenStreams?: number;
  readonly maxOpenStreamsPerCaller?: number;
}

export interface CallSurroundOptions {
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly identity?: IdentityReader;
  /** Where callers show certificates: what one without may ask for. */
  readonly strangers?: StrangerCalls | undefined;
  /** Who may call what. Without it, as on servers of tests and plugins, who reaches the address may call everything. */
  readonly access?: Access;
  readonly limits?: CallLimits;
  /** For unary calls whose caller sent no deadline. */
  readonly defaultDeadlineMs?: number;
  /** The label of its metrics. Asked for each time: a server knows it once it listens. */
  readonly address: () => string;
}

export interface CallSurround {
  /** Around every call of a service. The details of errors and the span lie around the stages. */
  readonly service: ServerMiddleware<CallExtension>;
  /** Around what belongs to a server itself: that is neither measured nor refused. */
  readonly own: ServerMiddleware<CallExtension>;
  /** What is shown as open connections. */
  connections(open: number): void;
  /** Ends streams at once, and what still runs after the grace. Answers whether all had ended in the end. */
  stop(graceMs: number, drained?: Promise<unknown>): Promise<boolean>;
}

export const defaultMaxConcurrentStreams = 100;

/** Enough for tens of thousands of calls a second, and far from what holds a turn of the event loop up. */
const callsPerTurn = 16;
/** A refusal is made of less, and what waits for it takes memory. */
const refusalsPerTurn = 32;

/** Between the abort of what still runs and the end of its connections: time to send the answer. */
const lastWordMs = 250;

export function createCallSurround(options: CallSurroundOptions): CallSurround {
  const { log, metrics, access, limits = {}, address, defaultDeadlineMs = 60_000 } = options;
  const { maxInFlight = 4096, maxInFlightPerCaller = maxInFlight } = limits;
  const { maxOpenStreams = 4096, maxOpenStreamsPerCaller = maxOpenStreams } = limits;
  const stopStreams = new AbortController();
  const stopUnary = new AbortController();
  const spanOf = createServerSpans();
  const running = createRunning();
  /** Every call's, in this order. */
  const stages = [
    identityStage(options.identity ?? identityFromMetadata),
    ...(options.strangers === undefined ? [] : [strangerStage(options.strangers)]),
    deadlineStage({
      stopping: { streams: stopStreams.signal, unary: stopUnary.signal },
      defaultDeadlineMs,
      createRequestId: randomUUID,
    }),
    logStage(log),
  ];
  const gauges = createServerGauges(metrics, address);
  const turns = {
    calls: createCallTurns({ perTurn: callsPerTurn, onDropped: gauges.dropped }),
    refusals: createCallTurns({ perTurn: refusalsPerTurn, onDropped: gauges.dropped }),
  };
  const overload = overloadStage(
    {
      maxInFlight,
      maxInFlightPerCaller,
      maxPerSecondPerCaller: limits.maxPerSecondPerCaller ?? Number.POSITIVE_INFINITY,
      // Twice: those that their caller waits for, and those that it has reset and that have not ended yet.
      maxInFlightPerConnection: 2 * (limits.maxConcurrentStreams ?? defaultMaxConcurrentStreams),
      maxOpenStreams,
      maxOpenStreamsPerCaller,
    },
    gauges.streams,
  );
  const open: CallStage = () => {
    if (stopStreams.signal.aborted) throw shuttingDown(); // S1
    return running.enter();
  };
  const measured = metrics === undefined ? [] : [metricsStage(metrics)];
  const judged = access === undefined ? [] : [access.stage];

  return {
    service: callMiddleware(spanOf, [...stages, ...measured, open, ...judged, overload], turns),
    own: callMiddleware(spanOf, stages),
    connections: gauges.connections,
    async stop(graceMs, drained) {
      stopStreams.abort(shuttingDown());
      const ended = Promise.all([drained, running.none()]).then(() => true);
      if (await within(ended, graceMs)) return true;
      log.warn("calls are still running after the grace; they are cut off", { grace_ms: graceMs });
      stopUnary.abort(shuttingDown());
      return await within(ended, lastWordMs); // S2
    },
  };
}

interface Running {
  enter(): () => void;
  /** Resolves when none is left. */
  none(): Promise<void>;
}

function createRunning(): Running {
  let running = 0;
  let waiting: (() => void)[] = [];
  const leave = (): void => {
    running -= 1;
    if (running > 0) return;
    for (const wake of waiting) wake();
    waiting = [];
  };
  return {
    enter() {
      running += 1;
      return leave;
    },
    none: () =>
      new Promise((resolve) => {
        if (running === 0) resolve();
        else waiting.push(resolve);
      }),
  };
}

export function shuttingDown(): HoldfastError {
  return new HoldfastError({
    kind: "unavailable",
    reason: shuttingDownReason,
    message: "this server is going down; ask another one, or again in a moment",
  });
}

function within(done: Promise<boolean>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), ms);
    done.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
