/**
 * What is learned from the calls of each controller plugin, and what follows for the next ones: whether one may start, how many at
 * once, and how long it may take. Nothing of it is stored: a controller that starts trusts every plugin again. Nothing of it decides
 * what a call proved.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { Logger } from "@holdfast/shared/log/logger";
import type { CallEnd, CallGuide } from "../../domain/plugin/call-guide.ts";
import type { PluginLoad } from "../../domain/plugin/plugin-load.ts";
import { type Breaker, type BreakerEvent, breakerStep, closedBreaker, letsThrough } from "./breaker.ts";
import type { SlotGuard } from "./call-slots.ts";
import { type CallTimes, withTime } from "./call-times.ts";
import { type Concurrency, callsAtOnce, concurrencyStep, firstConcurrency } from "./concurrency.ts";
import { afterAnswer, afterMiss, type Deadline, deadlineMs, firstDeadline } from "./deadlines.ts";

/** What operators allow, of the plugin's profile. */
export interface Allowed {
  readonly maxConcurrentCalls: number;
  readonly maxConcurrentAttachesPerNode: number;
  readonly exclusiveMethods: readonly string[];
}

export interface PluginGovernorDeps {
  readonly allowed: (plugin: string) => Allowed;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Timers end with it. */
  readonly signal: AbortSignal;
}

export interface PluginGovernor extends CallGuide, SlotGuard {
  /** Another process of the plugin is there, or its profile changed: what was learned of the one before does not hold it back. */
  renewed(plugin: string): void;
  load(plugin: string): PluginLoad;
}

/** What an answer says of the plugin as a whole; what it says of the call is decided elsewhere. Codes not named: it answers. */
const meaning: Readonly<Record<string, "silent" | "pushback" | "nothing">> = {
  UNAVAILABLE: "silent",
  DEADLINE_EXCEEDED: "silent",
  RESOURCE_EXHAUSTED: "pushback",
  CANCELLED: "nothing",
  // Plugins without codes answer these for everything, also for a backend that is away: neither good nor bad news.
  UNKNOWN: "nothing",
  INTERNAL: "nothing",
  DATA_LOSS: "nothing",
};

interface Learned {
  breaker: Breaker;
  concurrency: Concurrency;
  readonly times: Map<string, CallTimes>;
  readonly deadlines: Map<string, Deadline>;
  running: number;
  stopTimer: () => void;
}

/** No call is overdue before. */
const leastOverdueMs = 250;
const overdueAfter = 4;

export const createPluginGovernor = ({ allowed, clock, random, log, signal }: PluginGovernorDeps): PluginGovernor => {
  const plugins = new Map<string, Learned>();
  const listeners = createEmitter<[plugin: string]>();

  const of = (plugin: string): Learned => {
    const known = plugins.get(plugin);
    if (known !== undefined) return known;
    const fresh: Learned = {
      breaker: closedBreaker,
      concurrency: firstConcurrency(allowed(plugin).maxConcurrentCalls),
      times: new Map(),
      deadlines: new Map(),
      running: 0,
      stopTimer: () => undefined,
    };
    plugins.set(plugin, fresh);
    return fresh;
  };

  const tell = (plugin: string): void => {
    listeners.tell(plugin);
  };

  const turn = (plugin: string, event: BreakerEvent): void => {
    const learned = of(plugin);
    const before = learned.breaker;
    const now = clock.monotonic();
    const next = breakerStep(before, event, now);
    if (next === before) return;
    learned.breaker = next;
    learned.stopTimer();
    if (next.state === "open") {
      arm(plugin, learned, next.until);
      log.warn("a plugin does not answer; its calls wait", { plugin, because: next.because, times: next.times });
    } else if (before.state !== "closed" && next.state === "closed") log.info("a plugin answers again", { plugin });
    if (next.state !== before.state || letsThrough(next)) tell(plugin);
  };

  /** A timer may be a moment early by the clock that it is compared with: then it is set again, or nobody ever tried again. */
  const arm = (plugin: string, learned: Learned, until: number): void => {
    learned.stopTimer = clock.timer(Math.max(1, until - clock.monotonic()), () => {
      turn(plugin, { type: "time" });
      if (learned.breaker.state === "open" && learned.breaker.until === until) arm(plugin, learned, until);
    });
  };

  const adapt = (plugin: string, learned: Learned, event: Parameters<typeof concurrencyStep>[1]): void => {
    const before = callsAtOnce(learned.concurrency);
    const most = allowed(plugin).maxConcurrentCalls;
    learned.concurrency = concurrencyStep(learned.concurrency, event, most, clock.monotonic());
    const after = callsAtOnce(learned.concurrency);
    if (after > before) tell(plugin);
    else if (after < before)
      log.info("a plugin gets fewer calls at once", { plugin, calls: after, before, because: event.type });
  };

  /** A call that got no answer. */
  const silent = (plugin: string, learned: Learned, call: Running, { code }: CallEnd): void => {
    const { method, subject, startedAt, policyMs, hadMs } = call;
    if (code === "DEADLINE_EXCEEDED") learned.deadlines.set(method, afterMiss(hadMs, policyMs));
    if (code === "UNAVAILABLE") adapt(plugin, learned, { type: "pushback", startedAt });
    turn(plugin, { type: "silent", subject, because: `${method} answered ${code}`, random: random() });
  };

  const answered = (plugin: string, learned: Learned, { method, startedAt, policyMs }: Running): void => {
    const times = withTime(learned.times.get(method), clock.monotonic() - startedAt);
    learned.times.set(method, times);
    const deadline = learned.deadlines.get(method);
    if (deadline !== undefined) learned.deadlines.set(method, afterAnswer(deadline, policyMs));
    adapt(plugin, learned, { type: "answered", startedAt, running: learned.running, times });
  };

  const ended = (plugin: string, call: Running, end: CallEnd): void => {
    const learned = of(plugin);
    const says = end.sent ? (meaning[end.code] ?? "answer") : "nothing";
    if (says === "silent") silent(plugin, learned, call, end);
    if (says === "silent" || says === "nothing") return;
    turn(plugin, { type: "answered" });
    if (says === "answer") answered(plugin, learned, call);
    else adapt(plugin, learned, { type: "pushback", startedAt: call.startedAt });
  };

  signal.addEventListener(
    "abort",
    () => {
      for (const { stopTimer } of plugins.values()) stopTimer();
    },
    { once: true },
  );

  return {
    begin(plugin, method, subject, policyMs) {
      const learned = of(plugin);
      const hadMs = deadlineMs(learned.deadlines.get(method) ?? firstDeadline, learned.times.get(method), policyMs);
      const call = { method, subject, startedAt: clock.monotonic(), policyMs, hadMs };
      return { deadlineMs: hadMs, end: (end) => ended(plugin, call, end) };
    },
    held(plugin) {
      const breaker = plugins.get(plugin)?.breaker ?? closedBreaker;
      if (breaker.state === "closed") return undefined;
      const silence = `plugin ${plugin} has not answered for ${seconds(clock.monotonic() - breaker.since)} (${breaker.because})`;
      const next =
        breaker.state === "open"
          ? `in ${seconds(Math.max(0, breaker.until - clock.monotonic()))} one call is tried`
          : "one call at a time is tried";
      return `${silence}; its calls wait, ${next}`;
    },
    load(plugin) {
      const learned = plugins.get(plugin);
      const most = allowed(plugin).maxConcurrentCalls;
      return {
        breaker: learned?.breaker.state ?? "closed",
        running: learned?.running ?? 0,
        limit: learned === undefined ? most : callsAtOnce(learned.concurrency),
        most,
      };
    },
    renewed(plugin) {
      const learned = plugins.get(plugin);
      if (learned === undefined) return;
      adapt(plugin, learned, { type: "most" });
      turn(plugin, { type: "renewed" });
    },

    allows(plugin) {
      const { breaker, concurrency, running } = of(plugin);
      return letsThrough(breaker) && running < callsAtOnce(concurrency);
    },
    repeatsAtOnce: (plugin) => Math.max(1, Math.floor(callsAtOnce(of(plugin).concurrency) / 2)),
    perNode: (plugin) => allowed(plugin).maxConcurrentAttachesPerNode,
    exclusive: (plugin, method) => allowed(plugin).exclusiveMethods.includes(method),
    overdueMs(plugin, method) {
      const { medianMs = Number.POSITIVE_INFINITY } = of(plugin).times.get(method) ?? {};
      return Math.max(leastOverdueMs, medianMs * overdueAfter);
    },
    started(plugin) {
      const learned = of(plugin);
      learned.running += 1;
      turn(plugin, { type: "started" });
      // Of the calls that run beside it, none ends the trial but the one that is it.
      const trial = learned.breaker;
      return () => {
        learned.running -= 1;
        if (trial.state === "half-open" && learned.breaker === trial) turn(plugin, { type: "ended" });
      };
    },
    onChange: listeners.on,
  };
};

interface Running {
  readonly method: string;
  readonly subject: string;
  readonly startedAt: number;
  readonly policyMs: number;
  readonly hadMs: number;
}

const seconds = (ms: number): string => `${Math.ceil(ms / 1_000)} s`;
