import { reasonOf, throwIfAborted } from "@holdfast/shared/async/signals";
import type { CsiCode } from "../domain/driver-error.ts";
import { DriverError } from "../domain/driver-error.ts";
import type { Host, State } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";

type PortName = Exclude<keyof Host, "state" | "clock" | "newId">;
type RecordsName = Exclude<keyof State, "broken" | "settled">;

/** Every call of a port that waits, as "images.create" or "volumes.add". */
export type PortCall =
  | { [P in PortName]: `${P}.${keyof Host[P] & string}` }[PortName]
  | `${RecordsName}.${"add" | "change" | "remove"}`
  | "state.settled";

/** What goes wrong, as data. The first fault that fits a call is used, `times` times (once unless said), after `skip` calls that fit. */
export type Fault = {
  readonly on: PortCall | "*";
  readonly skip?: number;
  readonly times?: number;
} & (
  | { readonly kind: "fail"; readonly code: CsiCode; readonly message?: string }
  /** Nothing happens until the signal aborts. */
  | { readonly kind: "hang" }
  /** The work is done, the answer lost. */
  | { readonly kind: "lost"; readonly code: CsiCode }
  /** The process is killed: nothing it calls from then on does anything. */
  | { readonly kind: "die"; readonly when: "before" | "after" }
);

/** What every call of a killed process throws; its clean-up code runs in the test, and changes nothing. */
export class Killed extends Error {
  constructor() {
    super("the process was killed");
    this.name = "Killed";
  }
}

/** One life of the process: from a start to a kill. */
export interface Life {
  dead(): boolean;
  kill(): void;
  run<T>(call: PortCall, args: readonly unknown[], work: () => Promise<T>): Promise<T>;
}

export interface FaultPlan {
  /** Every call in order, also of earlier lives. */
  readonly calls: PortCall[];
  inject(...faults: readonly Fault[]): void;
  clear(): void;
  /** Faults not used up. */
  pending(): readonly Fault[];
  newLife(): Life;
}

interface Armed {
  readonly fault: Fault;
  skip: number;
  times: number;
}

export function createFaultPlan(): FaultPlan {
  const calls: PortCall[] = [];
  const armed: Armed[] = [];

  const next = (call: PortCall): Fault | undefined => {
    for (const each of armed) {
      if (each.times === 0 || (each.fault.on !== "*" && each.fault.on !== call)) continue;
      if (each.skip > 0) {
        each.skip -= 1;
        continue;
      }
      each.times -= 1;
      return each.fault;
    }
    return undefined;
  };

  const newLife = (): Life => {
    let dead = false;
    return {
      dead: () => dead,
      kill: () => {
        dead = true;
      },
      run: async (call, args, work) => {
        if (dead) throw new Killed();
        calls.push(call);
        const signal = args.find((arg) => arg instanceof AbortSignal);
        throwIfAborted(signal);
        const fault = next(call);
        if (fault === undefined) return await work();
        switch (fault.kind) {
          case "fail":
            throw new DriverError(fault.code, fault.message ?? `${call}: a fault of the test`);
          case "hang":
            return await hang(call, signal);
          case "lost":
            await work();
            throw new DriverError(fault.code, `${call}: done, and the answer lost, by the test`);
          case "die":
            if (fault.when === "after") await work();
            dead = true;
            throw new Killed();
        }
      },
    };
  };

  return {
    calls,
    inject: (...faults) => {
      for (const fault of faults) armed.push({ fault, skip: fault.skip ?? 0, times: fault.times ?? 1 });
    },
    clear: () => {
      armed.length = 0;
    },
    pending: () => armed.filter((each) => each.times > 0).map((each) => each.fault),
    newLife,
  };
}

function hang(call: PortCall, signal: AbortSignal | undefined): Promise<never> {
  if (signal === undefined) throw new CallerFault(`${call} was given no signal: it could not be ended`);
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(reasonOf(signal)), { once: true });
  });
}

/** The same methods, each through `life.run`. Those named in `sync` answer at once and never fail. */
export function underFaults<T extends object>(
  port: string,
  methods: T,
  life: Life,
  sync: readonly (keyof T)[] = [],
): T {
  const wrapped: Record<string, unknown> = {};
  for (const [name, method] of Object.entries(methods)) {
    wrapped[name] =
      sync.some((each) => each === name) || typeof method !== "function"
        ? method
        : (...args: readonly unknown[]) =>
            life.run(
              `${port}.${name}` as PortCall,
              args,
              async () => (await Reflect.apply(method, undefined, args)) as unknown,
            );
  }
  return wrapped as T;
}
