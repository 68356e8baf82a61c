/**
 * Node collects garbage when somebody asks for memory. A service that is idle after a burst asks for none and keeps what the burst
 * took, which its host and the limit of its container pay for. So an idle service collects by itself. V8 needs several
 * collections: the first one leaves pages empty in its own keeping, and code that is not used any more goes after it has grown old.
 */
import { performance } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Clock, systemClock } from "./async/clock.ts";

export interface IdleMemory {
  /** Bytes that the process has of the machine. */
  resident(): number;
  /** The share of the time since the last question in which the event loop had work. */
  busy(): number;
  collect(): void;
}

export interface MeasuredProcess {
  readonly memoryUsage: { rss(): number };
}

const periodMs = 10_000;
/**
 * A collection keeps calls waiting for tens of milliseconds, and V8 throws code away that was not run between two of them: a service with
 * one claim after the other took 8 % longer for each when it counted as idle.
 */
const mostBusy = 0.05;
const growth = 1.1;
const collections = 4;

/** Answers the look that is made once in each period. */
export const createIdleCollector = (memory: IdleMemory): (() => void) => {
  /** What the last collections left: they are not repeated before the service has grown from there. */
  let settled = 0;
  let owed: number | undefined;
  return () => {
    if (memory.busy() > mostBusy) return;
    if (owed === 0) {
      settled = memory.resident();
      owed = undefined;
    }
    if (owed === undefined && memory.resident() <= settled * growth) return;
    owed = (owed ?? collections) - 1;
    memory.collect();
  };
};

const processMemory = ({ memoryUsage }: MeasuredProcess): IdleMemory => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  let last = performance.eventLoopUtilization();
  return {
    resident: () => memoryUsage.rss(),
    busy: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
    collect,
  };
};

export const collectWhenIdle = (measured: MeasuredProcess, signal: AbortSignal, clock: Clock = systemClock): void => {
  const look = createIdleCollector(processMemory(measured));
  const next = (): void => {
    if (signal.aborted) return;
    try {
      look();
    } catch {
      // Its memory is read from a file, and a process without a file descriptor has to live: it is looked at again.
    }
    clock.timer(periodMs, next);
  };
  clock.timer(periodMs, next);
};
