/**
 * Which of several controllers takes the calls of a plugin that no controller has taken yet, so that not all of them ask the same and its
 * limits hold for all calls together.
 *
 * V1 It never decides who has a volume, nor who goes on with a call that was given to an instance: both stand in the record. V2 A controller that sees no commits of others keeps no lease and reads none: alone it costs nothing. V3 Time is this process's
 * own monotonic time: another's lease is over when its revision did not move for `expiryMs` of it. V4 Only a controller that can
 * reach the plugin holds its lease.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AggregateRef } from "../../domain/store-types.ts";
import type { Ids, Store } from "../../ports.ts";

export interface PluginDrivers {
  /** Whether this controller is to make the calls of the plugin about the record `key` now. */
  drives(plugin: string, key: string): boolean;
  /** That life of a controller is over, or was silent for so long that others go on with its work. */
  isAway(issuer: string): boolean;
  /** It holds the plugin's lease: what others owe is its to do. */
  holds(plugin: string): boolean;
  holdsAny(): boolean;
  /** Commits of volumes: by this controller, and by another. */
  note(whose: "own" | "other"): void;
  /** This controller makes the plugin's calls from now on. */
  onTaken(listener: (plugin: string) => void): () => void;
  /** Until the signal; rejects then. */
  run(): Promise<never>;
}

export interface PluginDriversDeps {
  readonly store: Pick<Store, "get" | "commit">;
  readonly ids: Pick<Ids, "uuid">;
  /** Controller and life. */
  readonly holder: string;
  readonly isFormerLife: (holder: string) => boolean;
  /** Plugins that this controller can call now. */
  readonly reachable: () => readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** For so long after a commit somebody counts as at work. */
export const atWorkMs = 60_000;
export const renewMs = 2_000;
export const expiryMs = 6_000;

interface Lease {
  readonly rev: number;
  readonly mine: boolean;
  /** When its revision was last seen to move. */
  readonly movedAt: number;
}

const holderOf = (body: string): string => {
  const said: unknown = JSON.parse(body);
  return typeof said === "object" && said !== null && "holder" in said ? String(said.holder) : "";
};

const refOf = (plugin: string): AggregateRef => ({ kind: "meta", key: `driver/${plugin}` });

export const createPluginDrivers = (deps: PluginDriversDeps): PluginDrivers => {
  const { store, ids, holder, isFormerLife, reachable, clock, log, signal } = deps;
  const leases = new Map<string, Lease>();
  const listeners = createEmitter<[plugin: string]>();
  const lastCommit = { own: Number.NEGATIVE_INFINITY, other: Number.NEGATIVE_INFINITY };

  /** V2 */
  const contested = (): boolean => {
    const since = clock.monotonic() - atWorkMs;
    return lastCommit.own >= since && lastCommit.other >= since;
  };
  const over = ({ movedAt }: Lease): boolean => clock.monotonic() - movedAt > expiryMs; // V3

  const write = async (plugin: string, expectedRev: number, body: string | null): Promise<boolean> => {
    const ref = refOf(plugin);
    const result = await store.commit({
      opId: ids.uuid(),
      writes: [{ ref, expectedRev, body, indexes: [], due: [] }],
      events: [],
      requiresVetted: false,
    });
    const rev = result.ok ? (result.revs[0] ?? 0) : (result.conflicts[0]?.rev ?? 0);
    leases.set(plugin, { rev, mine: result.ok && body !== null, movedAt: clock.monotonic() });
    return result.ok;
  };

  const take = async (plugin: string, rev: number): Promise<void> => {
    if (!(await write(plugin, rev, JSON.stringify({ holder })))) return;
    log.info("this controller makes the calls of a plugin now", { plugin });
    listeners.tell(plugin);
  };

  const giveUp = async (plugin: string, { rev, mine }: Lease): Promise<void> => {
    leases.delete(plugin);
    if (!mine) return;
    await write(plugin, rev, null);
    leases.delete(plugin);
  };

  const look = async (plugin: string): Promise<void> => {
    const known = leases.get(plugin);
    if (known?.mine === true) {
      await write(plugin, known.rev, JSON.stringify({ holder }));
      return;
    }
    const found = await store.get(refOf(plugin));
    if (found === undefined) await take(plugin, 0);
    // V5
    else if (isFormerLife(holderOf(found.body))) await take(plugin, found.rev);
    else if (known?.rev !== found.rev) leases.set(plugin, { rev: found.rev, mine: false, movedAt: clock.monotonic() });
    else if (over(known)) await take(plugin, found.rev);
  };

  const tick = async (): Promise<void> => {
    const wanted = new Set(contested() ? reachable() : []); // V4
    for (const [plugin, lease] of [...leases]) if (!wanted.has(plugin)) await giveUp(plugin, lease);
    for (const plugin of wanted) await look(plugin);
  };

  return {
    drives(plugin) {
      const lease = leases.get(plugin);
      return lease === undefined || lease.mine || over(lease) || !contested();
    },
    isAway: isFormerLife,
    holds: (plugin) => leases.get(plugin)?.mine === true,
    holdsAny: () => [...leases.values()].some(({ mine }) => mine),
    note(whose) {
      lastCommit[whose] = clock.monotonic();
    },
    onTaken: listeners.on,
    run: () =>
      every(renewMs, tick, {
        signal,
        clock,
        // V1: without the store nothing can be committed either.
        onError: (error) => log.warn("who calls which plugin cannot be settled now", { error }),
      }),
  };
};
