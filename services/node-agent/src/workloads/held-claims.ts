/**
 * Which claims this host holds for which workload: an index over the ledger, and a wake-up for whoever waits for it.
 *
 * H1 What is answered is what the ledger has at that moment; the index only says where to look.
 * H2 No change is missed between a look and the wait that follows it: any change since, of whatever workload, ends the wait.
 */
import { createNotifier, type Notifier } from "@holdfast/shared/async/notifier";
import type { HeldClaim, VolumeState } from "../domain/types.ts";
import { type WorkloadName, workloadKey } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";

export interface Held {
  readonly volume: VolumeState;
  readonly claim: HeldClaim;
}

export interface HeldClaims {
  of(name: WorkloadName): readonly Held[];
  /** To be read before the look that a wait follows. */
  version(): number;
  /** Until something of the workload has changed since, or sooner: look again. Rejects when aborted. */
  wait(name: WorkloadName, since: number, signal: AbortSignal): Promise<void>;
  /** The listener is called after each change, with how the claim was and how it is. */
  subscribe(listener: (name: WorkloadName, before: HeldClaim | undefined, after: HeldClaim | undefined) => void): void;
  /** Somebody who waits for the workload has another reason to look. */
  touch(name: WorkloadName): void;
}

export function createHeldClaims(ledger: Pick<Ledger, "volume" | "volumes" | "onVolume">): HeldClaims {
  /** By workload: the uids of its claims, with that of their volume. */
  const places = new Map<string, Map<string, string>>();
  const known = new Map<string, Readonly<Record<string, HeldClaim>>>();
  /** Only of those that somebody waits for. */
  const wakers = new Map<string, Notifier>();
  const listeners: Parameters<HeldClaims["subscribe"]>[0][] = [];
  let changes = 0;

  const wake = (key: string): void => {
    changes += 1;
    wakers.get(key)?.notify();
  };
  const nameOf = (volume: VolumeState, claim: HeldClaim): WorkloadName => ({
    namespace: volume.ref.namespace,
    workload: claim.facts.workload,
  });

  const take = (volume: VolumeState): void => {
    const { volumeUid } = volume.ref;
    const before = known.get(volumeUid) ?? {};
    const after = volume.claims;
    if (before === after) return;
    if (Object.keys(after).length === 0) known.delete(volumeUid);
    else known.set(volumeUid, after);
    for (const uid of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const [was, is] = [before[uid], after[uid]];
      const either = is ?? was;
      if (was === is || either === undefined) continue;
      const name = nameOf(volume, either);
      const key = workloadKey(name);
      const claims = places.get(key) ?? new Map<string, string>();
      if (is === undefined) claims.delete(uid);
      else claims.set(uid, volumeUid);
      if (claims.size === 0) places.delete(key);
      else places.set(key, claims);
      wake(key);
      for (const listener of listeners) listener(name, was, is);
    }
  };

  for (const volume of ledger.volumes()) take(volume);
  ledger.onVolume(take);

  return {
    of(name) {
      const held: Held[] = [];
      for (const [uid, volumeUid] of places.get(workloadKey(name)) ?? []) {
        const volume = ledger.volume(volumeUid);
        const claim = volume?.claims[uid];
        if (volume !== undefined && claim !== undefined) held.push({ volume, claim }); // H1
      }
      return held;
    },
    version: () => changes,
    async wait(name, since, signal) {
      signal.throwIfAborted();
      if (changes > since) return; // H2
      const key = workloadKey(name);
      const waker = wakers.get(key) ?? createNotifier();
      wakers.set(key, waker);
      try {
        await waker.wait(waker.version(), signal);
      } finally {
        if (waker.waiting() === 0) wakers.delete(key);
      }
    },
    subscribe: (listener) => void listeners.push(listener),
    touch: (name) => wake(workloadKey(name)),
  };
}
