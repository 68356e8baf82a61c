/**
 * What is learned from the calls of each controller plugin and of each of its instances, and what follows for the next ones: which
 * instance is left alone, whether a call may start, how many at once, and how long it may take. Nothing of it is stored: a controller
 * that starts trusts every plugin again. Nothing of it decides what a call proved.
 *
 * G4 An instance whose breaker is not closed is aside while new calls go to another one that reaches everything. What is learned of each
 * instance, and G1–G3, are in instance-health.ts.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { onAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { CallGuide } from "../../domain/plugin/call-guide.ts";
import type { PluginLoad } from "../../domain/plugin/plugin-load.ts";
import { letsThrough } from "./breaker.ts";
import type { SlotGuard } from "./call-slots.ts";
import { type CallTimes, withTime } from "./call-times.ts";
import { type Concurrency, callsAtOnce, concurrencyStep, firstConcurrency } from "./concurrency.ts";
import { createInstanceHealth, type InstanceHealth, type Running } from "./instance-health.ts";

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
  readonly instances: Map<string, InstanceHealth>;
}

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

  /** What the profile allows may have become less since. */
  const atOnce = (plugin: string): number =>
    Math.min(callsAtOnce(of(plugin).concurrency), allowed(plugin).maxConcurrentCalls);

  const instanceOf = (plugin: string, id: string): InstanceHealth => {
    const { instances } = of(plugin);
    const known = instances.get(id);
    if (known !== undefined) return known;
    const fresh = createInstanceHealth({ plugin, id, clock, random, log, tell: () => tell(plugin) });
    instances.set(id, fresh);
    return fresh;
  };
  /** Where a call is made, or would be: a call that is given to no instance yet goes to the current one. */
  const placeOf = (plugin: string, via: string | undefined): InstanceHealth =>
    instanceOf(plugin, via ?? current(plugin)?.id ?? "");

  const adapt = (plugin: string, learned: Learned, event: Parameters<typeof concurrencyStep>[1]): void => {
    const before = callsAtOnce(learned.concurrency);
    const most = allowed(plugin).maxConcurrentCalls;
    learned.concurrency = concurrencyStep(learned.concurrency, event, most, clock.monotonic());
    const after = callsAtOnce(learned.concurrency);
    if (after > before) tell(plugin);
    else if (after < before)
      log.info("a plugin gets fewer calls at once", { plugin, calls: after, before, because: event.type });
  };

  const ended = (plugin: string, instance: InstanceHealth, call: Running, code: string, sent: boolean): void => {
    const learned = of(plugin);
    const { method, startedAt } = call;
    const says = sent ? (meaning[code] ?? "answer") : "nothing";
    if (says === "pushback" || (says === "silent" && code === "UNAVAILABLE"))
      adapt(plugin, learned, { type: "pushback", startedAt });
    if (says === "silent") instance.silent(call, code);
    if (says === "silent" || says === "nothing") return;
    instance.answered(call);
    if (says === "pushback") return;
    const times = withTime(learned.times.get(method), clock.monotonic() - startedAt);
    learned.times.set(method, times);
    adapt(plugin, learned, { type: "answered", startedAt, running: instance.running(), times });
  };

  onAbort(signal, () => {
    for (const { instances } of plugins.values()) for (const one of instances.values()) one.stopTimer();
  });

  return {
    begin(plugin, id, method, subject, policyMs) {
      const instance = instanceOf(plugin, id);
      const hadMs = instance.begin(method, of(plugin).times.get(method), policyMs);
      const call = { method, subject, startedAt: clock.monotonic(), policyMs, hadMs };
      return { deadlineMs: hadMs, end: (code, sent) => ended(plugin, instance, call, code, sent) };
    },
    restsUntil: (plugin, id) => plugins.get(plugin)?.instances.get(id)?.restsUntil() ?? 0,
    renewed(plugin, id) {
      instanceOf(plugin, id).renew();
      tell(plugin);
    },
    held(plugin, id) {
      const instance = instanceOf(plugin, id);
      const [breaker, silence] = [instance.breaker(), instance.silence()];
      if (silence === undefined) return undefined;
      const next =
        breaker.state === "open"
          ? `in ${Math.ceil(Math.max(0, breaker.until - clock.monotonic()) / 1_000)} s one call is tried`
          : "one call at a time is tried";
      return `plugin ${plugin} ${silence}; its calls wait, ${next}`;
    },
    load(plugin) {
      const { instances } = of(plugin);
      const all = [...instances.values()];
      return {
        breaker: placeOf(plugin, undefined).breaker().state,
        running: all.reduce((sum, one) => sum + one.running(), 0),
        limit: atOnce(plugin),
        most: allowed(plugin).maxConcurrentCalls,
        silent: all.flatMap(({ id, silence }) => {
          const why = silence();
          return why === undefined ? [] : [{ id, why }];
        }),
      };
    },
    changed(plugin) {
      const learned = plugins.get(plugin);
      if (learned === undefined) return;
      adapt(plugin, learned, { type: "most" });
      for (const instance of learned.instances.values()) instance.renew();
    },

    allows(plugin, via) {
      const instance = placeOf(plugin, via);
      return letsThrough(instance.breaker()) && instance.running() < atOnce(plugin);
    },
    // G4
    aside(plugin, via) {
      if (instanceOf(plugin, via).breaker().state === "closed") return false;
      const now = current(plugin);
      return now !== undefined && now.id !== via && now.own === undefined;
    },
    repeatsAtOnce: (plugin) => Math.max(1, Math.floor(atOnce(plugin) / 2)),
    perNode: (plugin) => allowed(plugin).maxConcurrentAttachesPerNode,
    exclusive: (plugin, method) => allowed(plugin).exclusiveMethods.includes(method),
    overdueMs(plugin, method) {
      const { medianMs = Number.POSITIVE_INFINITY } = of(plugin).times.get(method) ?? {};
      return Math.max(leastOverdueMs, medianMs * overdueAfter);
    },
    started: (plugin, via) => placeOf(plugin, via).started(),
    onChange,
  };
};
