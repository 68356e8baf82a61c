/**
 * Who works on which snapshot or group, now. Everything here can be lost: what is owed is in the record.
 *
 * W1 One call of a record at a time, however long it takes. W2 A step that stored nothing is not tried again until the record is
 * woken. W3 A wake-up during a step is never lost. W4 A record with nothing to do takes no memory. W5 A step that failed by our own
 * fault (the store is away) is tried again after a pause.
 */
import { backoffDelay } from "@holdfast/shared/async/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { context, ROOT_CONTEXT } from "@opentelemetry/api";
import { type CutRecord, refOfCutKey } from "../domain/snapshot.ts";
import { type CutStep, planCut } from "../domain/snapshot-steps.ts";
import type { CutRecords } from "../records/snapshot-records.ts";

export interface SnapshotWorkDeps {
  readonly cuts: Pick<CutRecords, "get">;
  readonly run: (record: CutRecord, step: CutStep) => Promise<boolean>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface SnapshotWork {
  /** In a hurry pauses after failed attempts are cut short: what was missing has come back. */
  wake(key: string, hurry?: boolean): void;
  /** Resolves when nothing runs and nothing is ready. */
  idle(): Promise<void>;
  size(): number;
}

interface Work {
  running: boolean;
  dirty: boolean;
  hurry: boolean;
  failures: number;
  retry: (() => void) | undefined;
}

const retryLimits = { baseMs: 250, capMs: 15_000 };

export const createSnapshotWork = ({ cuts, run, clock, random, log, signal }: SnapshotWorkDeps): SnapshotWork => {
  const active = new Map<string, Work>();
  const idlers = new Set<() => void>();
  const busy = (): boolean => [...active.values()].some(({ running }) => running);

  const settle = (key: string, work: Work): void => {
    work.running = false;
    if (work.retry === undefined) active.delete(key); // W4
    if (idlers.size === 0 || busy()) return;
    for (const resolve of idlers) resolve();
    idlers.clear();
  };

  const failed = (key: string, work: Work, error: unknown): void => {
    if (signal.aborted) return;
    work.failures += 1;
    const delay = Math.max(50, backoffDelay(work.failures, retryLimits, random));
    log.warn("work on a snapshot failed and is tried again", { snapshot: key, error, retry_in_ms: delay });
    work.retry?.();
    work.retry = clock.timer(delay, () => {
      work.retry = undefined;
      wake(key);
    }); // W5
  };

  /** Whether something was stored, so that there may be more to do. */
  const round = async (key: string, hurry: boolean): Promise<boolean> => {
    const found = await cuts.get(refOfCutKey(key));
    if (found === undefined) return false;
    const step = planCut(found.record, clock.now(), hurry);
    return step !== undefined && step.at <= clock.now() && (await run(found.record, step));
  };

  const loop = async (key: string, work: Work): Promise<void> => {
    while (work.dirty && !signal.aborted) {
      const { hurry } = work;
      work.dirty = false;
      work.hurry = false;
      try {
        if (!(await round(key, hurry))) continue; // W2
        work.failures = 0;
        work.dirty = true;
      } catch (error) {
        failed(key, work, error);
      }
    }
    settle(key, work);
  };

  const wake = (key: string, hurry = false): void => {
    if (signal.aborted) return;
    const work = active.get(key) ?? { running: false, dirty: false, hurry: false, failures: 0, retry: undefined };
    active.set(key, work);
    work.dirty = true; // W3
    work.hurry ||= hurry;
    if (work.running) return; // W1
    work.running = true;
    // Work belongs to the trace that its record names, never to that of whoever happened to wake it.
    context.with(ROOT_CONTEXT, () => void loop(key, work));
  };

  signal.addEventListener(
    "abort",
    () => {
      for (const work of active.values()) work.retry?.();
    },
    { once: true },
  );

  return {
    wake,
    idle: () => (busy() ? new Promise((resolve) => idlers.add(resolve)) : Promise.resolve()),
    size: () => active.size,
  };
};
