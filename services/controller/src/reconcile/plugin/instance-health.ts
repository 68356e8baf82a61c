/**
 * What is learned of one plugin instance: whether it answers, until when it is left alone, and how long its calls may take.
 *
 * G1 An instance that answers UNAVAILABLE rests, longer each time in a row. G2 An instance whose breaker is not closed rests as well, while
 * a call is open there and as long again after its missed deadline: those calls try the instance, and no new one has to. G3 An answer ends
 * the rest, and so does another process.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Breaker, type BreakerEvent, breakerStep, closedBreaker, letsThrough, pauses } from "./breaker.ts";
import type { CallTimes } from "./call-times.ts";
import { afterAnswer, afterMiss, type Deadline, deadlineMs, firstDeadline } from "./deadlines.ts";

export interface Running {
  readonly method: string;
  readonly subject: string;
  readonly startedAt: number;
  readonly policyMs: number;
  readonly hadMs: number;
}

export interface InstanceHealth {
  readonly id: string;
  breaker(): Breaker;
  /** For people; undefined while the breaker is closed. */
  silence(): string | undefined;
  restsUntil(): number;
  /** Calls that hold a slot. */
  running(): number;
  /** A call starts; what comes back is to be told its end. */
  started(): () => void;
  /** The call is about to leave, and has so long. */
  begin(method: string, times: CallTimes | undefined, policyMs: number): number;
  /** It got no answer: UNAVAILABLE, or its deadline passed. */
  silent(call: Running, code: string): void;
  answered(call: Running): void;
  /** Another process, or another profile: what was learned does not hold it back. */
  renew(): void;
  stopTimer(): void;
}

export interface InstanceHealthDeps {
  readonly plugin: string;
  readonly id: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Its breaker turned; more calls may start, or fewer. */
  readonly tell: () => void;
}

const rested = { until: 0, times: 0 };
/** At least half of a pause, so that the call that has just failed does not come back at once. */
const rests = { ...pauses, least: 0.5 };

export const createInstanceHealth = ({ plugin, id, clock, random, log, tell }: InstanceHealthDeps): InstanceHealth => {
  let breaker: Breaker = closedBreaker;
  let rest = rested;
  let running = 0;
  let stopTimer: () => void = () => undefined;
  const deadlines = new Map<string, Deadline>();

  const turn = (event: BreakerEvent): void => {
    const before = breaker;
    const next = breakerStep(before, event, clock.monotonic());
    if (next === before) return;
    breaker = next;
    stopTimer();
    const said = { plugin, instance: id };
    if (next.state === "open") {
      arm(next.until);
      log.warn("a plugin instance does not answer", { ...said, because: next.because, times: next.times });
    } else if (before.state !== "closed" && next.state === "closed") log.info("a plugin instance answers again", said);
    if (next.state !== before.state || letsThrough(next)) tell();
  };

  /** A timer may be a moment early by the clock that it is compared with: then it is set again, or nobody ever tried again. */
  const arm = (until: number): void => {
    stopTimer = clock.timer(Math.max(1, until - clock.monotonic()), () => {
      turn({ type: "time" });
      if (breaker.state === "open" && breaker.until === until) arm(until);
    });
  };

  /** G2 */
  const restFor = (ms: number): void => {
    rest = { ...rest, until: Math.max(rest.until, clock.monotonic() + ms) };
  };

  return {
    id,
    breaker: () => breaker,
    silence: () =>
      breaker.state === "closed"
        ? undefined
        : `has not answered for ${Math.ceil((clock.monotonic() - breaker.since) / 1_000)} s (${breaker.because})`,
    restsUntil: () => rest.until,
    running: () => running,
    started() {
      running += 1;
      turn({ type: "started" });
      // Of the calls that run beside it, none ends the trial but the one that is it.
      const trial = breaker;
      return () => {
        running -= 1;
        if (trial.state === "half-open" && breaker === trial) turn({ type: "ended" });
      };
    },
    begin(method, times, policyMs) {
      const hasMs = deadlineMs(deadlines.get(method) ?? firstDeadline, times, policyMs);
      if (breaker.state !== "closed") restFor(hasMs);
      return hasMs;
    },
    silent({ method, subject, policyMs, hadMs }, code) {
      const event = { type: "silent", subject, because: `${method} answered ${code}`, random: random() } as const;
      if (code === "DEADLINE_EXCEEDED") {
        deadlines.set(method, afterMiss(hadMs, policyMs));
        // Before the turn: who is told that it opened asks at once which instance is the current one.
        if (breakerStep(breaker, event, clock.monotonic()).state !== "closed") restFor(hadMs);
      } else {
        const { times } = rest; // G1
        rest = { until: clock.monotonic() + backoffDelay(times, rests, random()), times: times + 1 };
      }
      turn(event);
    },
    answered({ method, policyMs }) {
      rest = rested; // G3
      const deadline = deadlines.get(method);
      if (deadline !== undefined) deadlines.set(method, afterAnswer(deadline, policyMs));
      turn({ type: "answered" });
    },
    renew() {
      rest = rested; // G3
      turn({ type: "renewed" });
    },
    stopTimer: () => stopTimer(),
  };
};
