/**
 * What is learned from the calls of each controller plugin and of each of its instances, and what follows for the next ones: which
 * instance is left alone, whether a call may start, how many at once, and how long it may take. Nothing of it is stored: a controller
 * that starts trusts every plugin again. Nothing of it decides what a call proved.
 *
 * G1 An instance that answers UNAVAILABLE rests, longer each time in a row. G2 An instance whose breaker is not closed rests as well, while
 * a call is open there and as long again after its missed deadline: those calls try the instance, and no new one has to. G3 An answer ends
 * the rest, and so does another process. G4 An instance whose breaker is not closed is aside while new calls go to another one that reaches
 * everything.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { onAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { CallGuide } from "../../domain/plugin/call-guide.ts";
import type { PluginLoad } from "../../domain/plugin/plugin-load.ts";
import { type Breaker, type BreakerEvent, breakerStep, closedBreaker, letsThrough, pauses } from "./breaker.ts";
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
  /** The instance that new calls of the plugin go to now; `own`: the only place that it reaches. */
  readonly current: (plugin: string) => { readonly id: string; readonly own?: object } | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Timers end with it. */
  readonly signal: AbortSignal;
}

export interface PluginGovernor extends CallGuide, SlotGuard {
  /** Its profile changed. */
  changed(plugin: string): void;
  load(plugin: string): PluginLoad;
}

/** What an answer says of the instance as a whole; what it says of the call is decided elsewhere. Codes not named: it answers. */
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
  concurrency: Concurrency;
  readonly times: Map<string, CallTimes>;
  readonly instances: Map<string, Instance>;
}

interface Instance {
  readonly id: string;
  breaker: Breaker;
  readonly deadlines: Map<string, Deadline>;
  running: number;
  rest: { readonly until: number; readonly times: number };
  stopTimer: () => void;
}

const rested: Instance["rest"] = { until: 0, times: 0 };
/** At least half of a pause, so that the call that has just failed does not come back at once. */
const rests = { ...pauses, least: 0.5 };

/** No call is overdue before. */
const leastOverdueMs = 250;
const overdueAfter = 4;

export const createPluginGovernor = (deps: PluginGovernorDeps): PluginGovernor => {
  const { allowed, current, clock, random, log, signal } = deps;
  const plugins = new Map<string, Learned>();
  const { on: onChange, tell } = createEmitter<[plugin: string]>();

  const of = (plugin: string): Learned => {
    const known = plugins.get(plugin);
    if (known !== undefined) return known;
    const fresh: Learned = {
      concurrency: firstConcurrency(allowed(plugin).maxConcurrentCalls),
      times: new Map(),
      instances: new Map(),
    };
    plugins.set(plugin, fresh);
    return fresh;
  };

  const instanceOf = (plugin: string, id: string): Instance => {
    const { instances } = of(plugin);
    const known = instances.get(id);
    if (known !== undefined) return known;
    const fresh: Instance = {
      id,
      breaker: closedBreaker,
      deadlines: new Map(),
      running: 0,
      rest: rested,
      stopTimer: () => undefined,
    };
    instances.set(id, fresh);
    return fresh;
  };
  /** Where a call is made, or would be: a call that is given to no instance yet goes to the current one. */
  const placeOf = (plugin: string, via: string | undefined): Instance =>
    instanceOf(plugin, via ?? current(plugin)?.id ?? "");

  const turn = (plugin: string, instance: Instance, event: BreakerEvent): void => {
    const before = instance.breaker;
    const next = breakerStep(before, event, clock.monotonic());
    if (next === before) return;
    instance.breaker = next;
    instance.stopTimer();
    const said = { plugin, instance: instance.id };
    if (next.state === "open") {
      arm(plugin, instance, next.until);
      log.warn("a plugin instance does not answer", { ...said, because: next.because, times: next.times });
    } else if (before.state !== "closed" && next.state === "closed") log.info("a plugin instance answers again", said);
    if (next.state !== before.state || letsThrough(next)) tell(plugin);
  };

  /** A timer may be a moment early by the clock that it is compared with: then it is set again, or nobody ever tried again. */
  const arm = (plugin: string, instance: Instance, until: number): void => {
    instance.stopTimer = clock.timer(Math.max(1, until - clock.monotonic()), () => {
      turn(plugin, instance, { type: "time" });
      if (instance.breaker.state === "open" && instance.breaker.until === until) arm(plugin, instance, until);
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

  const restFor = (instance: Instance, ms: number): void => {
    const { until, times } = instance.rest;
    instance.rest = { until: Math.max(until, clock.monotonic() + ms), times };
  };
  /** G1 */
  const rest = (instance: Instance): void => {
    const { times } = instance.rest;
    instance.rest = { until: clock.monotonic() + backoffDelay(times, rests, random()), times: times + 1 };
  };

  /** A call that got no answer. */
  const silent = (plugin: string, instance: Instance, call: Running, code: string): void => {
    const { method, subject, startedAt, policyMs, hadMs } = call;
    const missed = code === "DEADLINE_EXCEEDED";
    if (missed) instance.deadlines.set(method, afterMiss(hadMs, policyMs));
    else {
      adapt(plugin, of(plugin), { type: "pushback", startedAt });
      rest(instance);
    }
    const event = { type: "silent", subject, because: `${method} answered ${code}`, random: random() } as const;
    // Before the turn: who is told that it opened asks at once which instance is the current one.
    if (missed && breakerStep(instance.breaker, event, clock.monotonic()).state !== "closed") restFor(instance, hadMs); // G2
    turn(plugin, instance, event);
  };

  const answered = (plugin: string, instance: Instance, { method, startedAt, policyMs }: Running): void => {
    const learned = of(plugin);
    const times = withTime(learned.times.get(method), clock.monotonic() - startedAt);
    learned.times.set(method, times);
    const deadline = instance.deadlines.get(method);
    if (deadline !== undefined) instance.deadlines.set(method, afterAnswer(deadline, policyMs));
    adapt(plugin, learned, { type: "answered", startedAt, running: instance.running, times });
  };

  const ended = (plugin: string, instance: Instance, call: Running, code: string, sent: boolean): void => {
    const says = sent ? (meaning[code] ?? "answer") : "nothing";
    if (says === "silent") silent(plugin, instance, call, code);
    if (says === "silent" || says === "nothing") return;
    instance.rest = rested; // G3
    turn(plugin, instance, { type: "answered" });
    if (says === "answer") answered(plugin, instance, call);
    else adapt(plugin, of(plugin), { type: "pushback", startedAt: call.startedAt });
  };

  const renew = (plugin: string, instance: Instance): void => {
    instance.rest = rested;
    turn(plugin, instance, { type: "renewed" });
  };

  const silenceOf = ({ since, because }: Exclude<Breaker, { readonly state: "closed" }>): string =>
    `has not answered for ${seconds(clock.monotonic() - since)} (${because})`;

  onAbort(signal, () => {
    for (const { instances } of plugins.values()) for (const { stopTimer } of instances.values()) stopTimer();
  });

  return {
    begin(plugin, id, method, subject, policyMs) {
      const [learned, instance] = [of(plugin), instanceOf(plugin, id)];
      const hadMs = deadlineMs(instance.deadlines.get(method) ?? firstDeadline, learned.times.get(method), policyMs);
      if (instance.breaker.state !== "closed") restFor(instance, hadMs); // G2
      const call = { method, subject, startedAt: clock.monotonic(), policyMs, hadMs };
      return { deadlineMs: hadMs, end: (code, sent) => ended(plugin, instance, call, code, sent) };
    },
    restsUntil: (plugin, id) => plugins.get(plugin)?.instances.get(id)?.rest.until ?? 0,
    renewed(plugin, id) {
      renew(plugin, instanceOf(plugin, id));
      tell(plugin);
    },
    held(plugin, id) {
      const { breaker } = instanceOf(plugin, id);
      if (breaker.state === "closed") return undefined;
      const silence = `plugin ${plugin} ${silenceOf(breaker)}`;
      const next =
        breaker.state === "open"
          ? `in ${seconds(Math.max(0, breaker.until - clock.monotonic()))} one call is tried`
          : "one call at a time is tried";
      return `${silence}; its calls wait, ${next}`;
    },
    load(plugin) {
      const learned = of(plugin);
      return {
        breaker: placeOf(plugin, undefined).breaker.state,
        running: [...learned.instances.values()].reduce((sum, { running }) => sum + running, 0),
        limit: callsAtOnce(learned.concurrency),
        most: allowed(plugin).maxConcurrentCalls,
        silent: [...learned.instances.values()].flatMap(({ id, breaker }) =>
          breaker.state === "closed" ? [] : [{ id, why: silenceOf(breaker) }],
        ),
      };
    },
    changed(plugin) {
      const learned = plugins.get(plugin);
      if (learned === undefined) return;
      adapt(plugin, learned, { type: "most" });
      for (const instance of learned.instances.values()) renew(plugin, instance);
    },

    allows(plugin, via) {
      const { breaker, running } = placeOf(plugin, via);
      return letsThrough(breaker) && running < callsAtOnce(of(plugin).concurrency);
    },
    // G4
    aside(plugin, via) {
      if (instanceOf(plugin, via).breaker.state === "closed") return false;
      const now = current(plugin);
      return now !== undefined && now.id !== via && now.own === undefined;
    },
    repeatsAtOnce: (plugin) => Math.max(1, Math.floor(callsAtOnce(of(plugin).concurrency) / 2)),
    perNode: (plugin) => allowed(plugin).maxConcurrentAttachesPerNode,
    exclusive: (plugin, method) => allowed(plugin).exclusiveMethods.includes(method),
    overdueMs(plugin, method) {
      const { medianMs = Number.POSITIVE_INFINITY } = of(plugin).times.get(method) ?? {};
      return Math.max(leastOverdueMs, medianMs * overdueAfter);
    },
    started(plugin, via) {
      const instance = placeOf(plugin, via);
      instance.running += 1;
      turn(plugin, instance, { type: "started" });
      // Of the calls that run beside it, none ends the trial but the one that is it.
      const trial = instance.breaker;
      return () => {
        instance.running -= 1;
        if (trial.state === "half-open" && instance.breaker === trial) turn(plugin, instance, { type: "ended" });
      };
    },
    onChange,
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
