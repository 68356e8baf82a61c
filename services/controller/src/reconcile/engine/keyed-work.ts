/**
 * Who works on which record (a volume, a snapshot, a group), now. Everything here can be lost: what is owed is in the record.
 *
 * W1 Two steps of one lane of a record never run at once, however long a step takes. W2 A step that stored nothing is not tried again
 * until the record is woken, so that waiting costs nothing. W3 A wake-up during a step, or while the record is read for it, is never lost.
 * W4 A record with nothing to do takes no memory. W5 A step that failed by our own fault (the store is away) is tried again after a pause.
 * W6 A hurry is for every step that had to pause, each once: also for those whose lane is busy when it comes. W7 Once the work is to end
 * (`taking` is aborted) no step begins; those that run are waited for by whoever asks when it is idle. W8 A step may begin while its record
 * is being stored. Once it has looked at the stored record it is like every other step. A step that nobody woke meanwhile, and that stored
 * nothing, does not make the record be read.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { onAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { context, ROOT_CONTEXT } from "@opentelemetry/api";

export interface KeyedWorkDeps<Subject, Step> {
  /** What the records are called in the log. */
  readonly what: "volume" | "snapshot";
  readonly read: (key: string) => Promise<Subject | undefined>;
  /** The steps that may be done now; in a hurry those too that pause after a failed attempt. */
  readonly ready: (subject: Subject, now: number, hurry: boolean) => readonly Step[];
  /** Steps of one lane are done one after the other. */
  readonly laneOf: (step: Step) => string;
  /** Steps that are one try together have one id. */
  readonly idOf: (step: Step) => string;
  /** True = something was stored, so that there may be more to do. */
  readonly run: (subject: Subject, step: Step) => Promise<boolean>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** W7 */
  readonly taking: AbortSignal;
}

export interface KeyedWork<Subject, Step> {
  /** In a hurry pauses after failed attempts are cut short: what was missing has come back. */
  wake(key: string, hurry?: boolean): void;
  /** Runs the step now, if its lane is free. The subject calls `looked` when the step looks at the stored record. W8 */
  begin(key: string, step: Step, subjectOf: (looked: () => void) => Subject): void;
  /** Resolves when nothing runs and nothing is ready. */
  idle(): Promise<void>;
  /** Records that are being worked on. */
  size(): number;
}

interface Work {
  readonly lanes: Set<string>;
  /** Steps that stored nothing since the last wake-up. */
  readonly waiting: Set<string>;
  /** How often it was woken: a step that was planned or ran through a wake-up may have decided before what it tells of. */
  wakes: number;
  /** How often what is ready was looked at. */
  plans: number;
  dirty: boolean;
  hurry: boolean;
  /** Steps whose pause a hurry has cut short, and whose lane was not free yet: each has its one try when it is. */
  readonly hurried: Set<string>;
  planning: boolean;
  failures: number;
  retry: (() => void) | undefined;
}

/** As it was when the subject of a step was read; `plans` of one that began beside its commit. */
interface Since {
  wakes: number;
  readonly plans?: number;
}

const retryLimits = { baseMs: 250, capMs: 15_000 };

export const createKeyedWork = <Subject, Step>(deps: KeyedWorkDeps<Subject, Step>): KeyedWork<Subject, Step> => {
  const { what, read, ready, laneOf, idOf, run, clock, random, log, taking } = deps;
  const active = new Map<string, Work>();
  const idlers = new Set<() => void>();

  const busy = (): boolean => [...active.values()].some((w) => w.planning || w.lanes.size > 0);

  const settle = (key: string, work: Work): void => {
    if (work.planning || work.lanes.size > 0) return;
    if (work.retry === undefined) active.delete(key); // W4
    if (idlers.size === 0 || busy()) return;
    for (const resolve of idlers) resolve();
    idlers.clear();
  };

  const failed = (key: string, work: Work, error: unknown): void => {
    if (taking.aborted) return;
    work.failures += 1;
    const delay = Math.max(50, backoffDelay(work.failures, retryLimits, random()));
    log.warn(`work on a ${what} failed and is tried again`, { [what]: key, error, retry_in_ms: delay });
    work.retry?.();
    work.retry = clock.timer(delay, () => {
      work.retry = undefined;
      wake(key);
    }); // W5
  };

  const start = async (key: string, work: Work, subject: Subject, step: Step, since: Since): Promise<void> => {
    let changed = false;
    try {
      changed = await run(subject, step);
      if (changed) work.failures = 0;
    } catch (error) {
      failed(key, work, error);
    }
    if (!changed && work.wakes === since.wakes) work.waiting.add(idOf(step)); // W2, W3
    work.lanes.delete(laneOf(step));
    if (changed || since.plans !== work.plans) work.dirty = true; // others may wait for this lane
    pump(key, work);
  };

  const plan = async (key: string, work: Work): Promise<void> => {
    const { wakes } = work;
    const subject = await read(key);
    if (subject === undefined) return;
    const { hurry, hurried } = work;
    work.hurry = false;
    const now = clock.now();
    work.plans += 1;
    const planned = new Set<string>();
    const all = hurry || hurried.size > 0;
    // Where some are hurried and others are not, those others wait until they are due.
    const due = all && !hurry ? new Set(ready(subject, now, false).map(idOf)) : undefined;
    for (const step of ready(subject, now, all)) {
      const id = idOf(step);
      planned.add(id);
      if (due !== undefined && !due.has(id) && !hurried.has(id)) continue;
      if (work.waiting.has(id)) continue;
      // W1, W6
      if (work.lanes.has(laneOf(step))) {
        if (hurry) hurried.add(id);
        continue;
      }
      hurried.delete(id);
      work.lanes.add(laneOf(step));
      void start(key, work, subject, step, { wakes });
    }
    for (const id of hurried) if (!planned.has(id)) hurried.delete(id);
  };

  const loop = async (key: string, work: Work): Promise<void> => {
    while (work.dirty && !taking.aborted) {
      work.dirty = false;
      try {
        await plan(key, work);
      } catch (error) {
        failed(key, work, error);
      }
    }
    work.planning = false;
    settle(key, work);
  };

  const pump = (key: string, work: Work): void => {
    if (work.planning) return;
    work.planning = true;
    // Work belongs to the trace that its record names, never to that of whoever happened to wake it.
    context.with(ROOT_CONTEXT, () => void loop(key, work));
  };

  const workOf = (key: string): Work => {
    const work = active.get(key) ?? {
      lanes: new Set<string>(),
      waiting: new Set<string>(),
      wakes: 0,
      plans: 0,
      dirty: false,
      hurry: false,
      hurried: new Set<string>(),
      planning: false,
      failures: 0,
      retry: undefined,
    };
    active.set(key, work);
    return work;
  };

  const wake = (key: string, hurry = false): void => {
    if (taking.aborted) return;
    const work = workOf(key);
    work.waiting.clear();
    work.wakes += 1;
    work.dirty = true;
    work.hurry ||= hurry;
    pump(key, work);
  };

  onAbort(taking, () => {
    for (const work of active.values()) work.retry?.();
  });

  return {
    wake,
    begin(key, step, subjectOf) {
      if (taking.aborted) return;
      const work = workOf(key);
      const lane = laneOf(step);
      if (work.lanes.has(lane)) return; // W1
      work.lanes.add(lane);
      const since = { wakes: work.wakes, plans: work.plans };
      const subject = subjectOf(() => {
        since.wakes = work.wakes;
      });
      context.with(ROOT_CONTEXT, () => void start(key, work, subject, step, since));
    },
    idle: () => (busy() ? new Promise((resolve) => idlers.add(resolve)) : Promise.resolve()),
    size: () => active.size,
  };
};
