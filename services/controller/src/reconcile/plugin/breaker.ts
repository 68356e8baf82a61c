/**
 * The circuit breaker of one plugin instance: when several volumes in a row got no answer, calls stop, and one at a time is tried until
 * the instance answers. Pure; times are arguments. It only decides when a call is made, never what one has proved.
 *
 * K1 One volume alone never opens it, however often its calls fail: `manySubjects` different ones have to, with no answer between.
 * K2 Half open, one call runs at a time. K3 An answer of any kind closes it, a process that is new too. K4 Open it stays for longer
 * each time in a row, up to `pauses.capMs`, and then always tries again: it never keeps an instance out for good.
 */
import { type RetryRule, retryDelay } from "../../domain/retry.ts";

export const manySubjects = 3;
export const pauses: RetryRule = { baseMs: 1_000, capMs: 30_000 };

interface Opened {
  /** Since when the instance has not answered. */
  readonly since: number;
  /** How often in a row. */
  readonly times: number;
  readonly because: string;
}

export type Breaker =
  | { readonly state: "closed"; readonly silent: readonly string[] }
  | ({ readonly state: "open"; readonly until: number } & Opened)
  | ({ readonly state: "half-open"; readonly trial: boolean } & Opened);

export type BreakerEvent =
  /** A call got an answer. */
  | { readonly type: "answered" }
  /** A call got none: UNAVAILABLE, or its deadline passed. */
  | { readonly type: "silent"; readonly subject: string; readonly because: string; readonly random: number }
  /** A call starts. */
  | { readonly type: "started" }
  /** A call ended that told nothing. */
  | { readonly type: "ended" }
  /** Another process of the instance is there. */
  | { readonly type: "renewed" }
  | { readonly type: "time" };

export const closedBreaker: Breaker = { state: "closed", silent: [] };

type Cell<S extends Breaker["state"], E extends BreakerEvent["type"]> = (
  breaker: Extract<Breaker, { state: S }>,
  event: Extract<BreakerEvent, { type: E }>,
  now: number,
) => Breaker;

type Table = { readonly [S in Breaker["state"]]: { readonly [E in BreakerEvent["type"]]: Cell<S, E> } };

const stay = <B extends Breaker>(breaker: B): B => breaker;
const close = (): Breaker => closedBreaker; // K3

const open = ({ since, times, because }: Opened, random: number, now: number): Breaker => ({
  state: "open",
  since,
  times,
  because,
  until: now + retryDelay(times - 1, pauses, random), // K4
});

const table: Table = {
  closed: {
    answered: (breaker) => (breaker.silent.length === 0 ? breaker : closedBreaker),
    silent({ silent }, { subject, because, random }, now) {
      const all = silent.includes(subject) ? silent : [...silent, subject];
      return all.length < manySubjects // K1
        ? { state: "closed", silent: all }
        : open({ since: now, times: 1, because }, random, now);
    },
    started: stay,
    ended: stay,
    renewed: close,
    time: stay,
  },
  open: {
    // A call of before has come back after all.
    answered: close,
    silent: stay,
    started: stay,
    ended: stay,
    renewed: close,
    time: (breaker, _event, now) => (now < breaker.until ? breaker : halfOpen(breaker)),
  },
  "half-open": {
    answered: close,
    silent: (breaker, { because, random }, now) => open({ ...breaker, times: breaker.times + 1, because }, random, now),
    started: (breaker) => ({ ...breaker, trial: true }), // K2
    ended: (breaker) => (breaker.trial ? { ...breaker, trial: false } : breaker),
    renewed: close,
    time: stay,
  },
};

const halfOpen = ({ since, times, because }: Opened): Breaker => ({
  state: "half-open",
  since,
  times,
  because,
  trial: false,
});

export const breakerStep = (breaker: Breaker, event: BreakerEvent, now: number): Breaker => {
  const cell = table[breaker.state][event.type] as (b: Breaker, e: BreakerEvent, n: number) => Breaker;
  return cell(breaker, event, now);
};

/** May a call start now? */
export const letsThrough = (breaker: Breaker): boolean =>
  breaker.state === "closed" || (breaker.state === "half-open" && !breaker.trial);
