/**
 * Which calls are at work on what. "The CO SHOULD ensure that there are no other calls 'in-flight' for the same volume ... the Plugin
 * SHOULD return ABORTED": a call that would touch what another one changes is refused at once, never queued, and told which one.
 *
 * P1 A key is held by one exclusive call or by any number of shared ones. P2 All keys of a call are taken together or none is.
 * P3 They are held until the operation has ended, also when its caller is gone.
 */
import { DriverError } from "../domain/driver-error.ts";

export interface Keys {
  readonly exclusive: readonly string[];
  readonly shared: readonly string[];
}

export interface Pending {
  /** ABORTED when one of the keys is taken; otherwise `act` runs and holds them until it has settled. */
  during<T>(call: string, keys: Keys, act: () => Promise<T>): Promise<T>;
  /** For those who look: what is held, by which call. */
  held(): ReadonlyMap<string, readonly string[]>;
  /** Resolves when no operation is at work any more, whoever asked for it. */
  settled(): Promise<void>;
}

interface Holder {
  readonly call: string;
  readonly exclusive: boolean;
  readonly since: number;
}

export const createPending = ({ monotonic }: { readonly monotonic: () => number }): Pending => {
  const holders = new Map<string, Set<Holder>>();
  const running = new Set<Promise<unknown>>();

  const refuseTaken = (call: string, key: string, exclusive: boolean): void => {
    for (const holder of holders.get(key) ?? []) {
      if (!exclusive && !holder.exclusive) continue;
      const seconds = ((monotonic() - holder.since) / 1000).toFixed(1);
      throw new DriverError(
        "ABORTED",
        `${call}: ${holder.call} has been at work on ${key} for ${seconds} s and is not through; ask again in a moment`,
      );
    }
  };

  return {
    during: async (call, keys, act) => {
      const shared = keys.shared.filter((key) => !keys.exclusive.includes(key));
      for (const key of keys.exclusive) refuseTaken(call, key, true); // P1
      for (const key of shared) refuseTaken(call, key, false);
      // Nothing is awaited between the look and the taking. P2
      const mine = [
        ...new Set(keys.exclusive.map((key) => ({ key, exclusive: true }))),
        ...new Set(shared.map((key) => ({ key, exclusive: false }))),
      ].map(({ key, exclusive }) => {
        const holder: Holder = { call, exclusive, since: monotonic() };
        const all = holders.get(key) ?? new Set();
        holders.set(key, all.add(holder));
        return { key, all, holder };
      });
      const work = (async () => await act())();
      running.add(work);
      try {
        return await work; // P3
      } finally {
        running.delete(work);
        for (const { key, all, holder } of mine) {
          all.delete(holder);
          if (all.size === 0) holders.delete(key);
        }
      }
    },
    settled: async () => {
      while (running.size > 0) await Promise.allSettled(running);
    },
    held: () => new Map([...holders].map(([key, all]) => [key, [...all].map((holder) => holder.call)])),
  };
};
