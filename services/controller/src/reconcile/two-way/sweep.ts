/**
 * Compares every plugin's backend with the records, in the background and without hurry: one pass a plugin at a time, its pages spread
 * over the interval, the next one an interval after the end of the last. A plugin that cannot be read is asked less and less often.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ControllerPlugins } from "../../ports.ts";
import type { PassProgress, PassResult, TwoWayPass } from "./two-way-pass.ts";

export interface SweepDeps {
  readonly pass: TwoWayPass;
  readonly plugins: Pick<ControllerPlugins, "names">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly intervalMs: number;
}

/** How the comparison with one backend stands. */
export interface SweepStatus {
  readonly plugin: string;
  /** Of the pass that runs now. */
  readonly running?: PassProgress;
  readonly last?: PassResult & { readonly at: number };
}

export interface Sweep {
  /** Runs until the signal. */
  run(): Promise<never>;
  status(): readonly SweepStatus[];
}

interface Turn {
  /** On the monotonic clock. */
  nextAt: number;
  failures: number;
  running: PassProgress | undefined;
  last: (PassResult & { readonly at: number }) | undefined;
}

/** How often it is looked whose turn it is. */
const lookMs = 5_000;
/** The share of the interval over which the pages of one pass are spread. */
const spread = 0.5;
const shortMs = 1_000;
const longestPauseMs = 30_000;
const slowest = 8;

export const createSweep = (deps: SweepDeps): Sweep => {
  const { pass, plugins, clock, random, log, signal, intervalMs } = deps;
  const turns = new Map<string, Turn>();

  const turnOf = (plugin: string): Turn => {
    const known = turns.get(plugin);
    if (known !== undefined) return known;
    // Controllers and plugins that start together do not list together.
    const turn: Turn = {
      nextAt: clock.monotonic() + Math.round(intervalMs * (0.1 + 0.9 * random())),
      failures: 0,
      running: undefined,
      last: undefined,
    };
    turns.set(plugin, turn);
    return turn;
  };

  const pauseFor = ({ last }: Turn): number => {
    const pages = Math.max(1, last?.pages ?? 1);
    return pages === 1 ? 0 : Math.min(longestPauseMs, Math.round((intervalMs * spread) / pages));
  };

  const take = async (plugin: string, turn: Turn): Promise<void> => {
    const pauseMs = pauseFor(turn);
    turn.running = { entries: 0, pages: 0 };
    try {
      const result = await pass.run(plugin, {
        afterPage: async (progress) => {
          turn.running = progress;
          // In short pauses, so that who waits for a scan does not wait for them.
          const until = clock.monotonic() + pauseMs;
          while (clock.monotonic() < until && !pass.awaited(plugin))
            await clock.sleep(Math.min(shortMs, until - clock.monotonic()), signal);
        },
      });
      turn.last = { ...result, at: clock.now() };
      turn.failures = result.gap === undefined ? 0 : turn.failures + 1;
      const fields = { plugin, entries: result.entries, pages: result.pages, orphans: result.orphans };
      if (result.gap === undefined) log.debug("a backend was compared with the records", fields);
      else log.debug("a backend could not be compared with the records", { ...fields, ...result.gap });
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      turn.failures += 1;
      log.warn("the comparison of a backend with the records ended", { plugin, error });
    } finally {
      turn.running = undefined;
      turn.nextAt = clock.monotonic() + intervalMs * Math.min(2 ** turn.failures, slowest);
    }
  };

  return {
    async run() {
      for (;;) {
        signal.throwIfAborted();
        const names = new Set(plugins.names());
        for (const plugin of names) {
          const turn = turnOf(plugin);
          if (turn.running === undefined && turn.nextAt <= clock.monotonic()) void take(plugin, turn);
        }
        for (const plugin of turns.keys()) if (!names.has(plugin)) turns.delete(plugin);
        await clock.sleep(Math.min(lookMs, intervalMs), signal);
      }
    },
    status: () =>
      [...turns].map(([plugin, { running, last }]) => ({
        plugin,
        ...(running === undefined ? {} : { running }),
        ...(last === undefined ? {} : { last }),
      })),
  };
};
