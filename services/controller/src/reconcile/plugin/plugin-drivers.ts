/**
 * Which of several controllers makes the calls of a plugin that no controller has taken yet: all of them that can reach it, each its share.
 *
 * PD1 A share never decides who has a volume, nor who goes on with a call that was given to an instance: both stand in the record. Views
 * of the shares that differ for a while cost a lost commit, and never a second call.
 * PD2 Time is this process's own monotonic time: a life is over when two looks found the same beat of it and `expiryMs` passed between
 * them. Where the store cannot be read, no life ends.
 * PD3 A controller shares the calls of the plugins that it can reach.
 * PD4 A plugin with limits that cannot be divided is not shared: one controller makes all its calls.
 * PD5 A life that stands in the store no more, because it signed off or a later life stands in its place, is away. So is one that was
 * not seen in `expiryMs` of looking.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Sharer, type Spread, sharerOf, spreadAfter } from "../../domain/plugin/call-shares.ts";
import { controllerOf, type SharerRecords, type StoredSharer } from "../../records/sharer-records.ts";
import type { Allowed } from "./plugin-governor.ts";

export interface PluginDrivers {
  /** Whether this controller is to make a call of the plugin about the record `key` that no controller has taken. */
  drives(plugin: string, key: string): boolean;
  /** Whether it is to make the call that it is asked for in this moment. */
  keeps(plugin: string, key: string): boolean;
  /** That life of a controller is over, or was silent for so long that others go on with its work. */
  isAway(issuer: string): boolean;
  /** What this controller may ask of the plugin, of what its profile allows to all together. */
  shareOf(plugin: string, allowed: Allowed): Allowed;
  /** What operators allow of the plugin has changed. */
  reconsider(plugin: string): void;
  /** The share of this controller in the plugin's calls has grown, or may have. */
  onGrown(listener: (plugin: string) => void): () => void;
  /** Until the signal; rejects then. */
  run(): Promise<never>;
  /** This controller takes no share any more, and goes on with the calls that it has. */
  leave(): Promise<void>;
  /** This life makes no call any more. */
  signOff(): Promise<void>;
}

export interface PluginDriversDeps {
  /** undefined: no other controller can use the store. */
  readonly sharers: SharerRecords | undefined;
  /** This controller, in this life. */
  readonly issuer: string;
  readonly isFormerLife: (issuer: string) => boolean;
  /** Plugins that this controller can call now. */
  readonly reachable: () => readonly string[];
  /** What operators allow of a plugin. */
  readonly allowed: (plugin: string) => Allowed;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export const renewMs = 2_000;
export const expiryMs = 6_000;
/** Of what was counted before a look. */
const keptOf = 0.9;
/** So long after its end a life is taken out of the store by others. */
const forgetMs = 60_000;

/** A life as the looks of this process found it. */
interface Seen {
  readonly sharer: StoredSharer;
  /** When its beat was first found. */
  readonly movedAt: number;
}

const idsOf = (sharers: readonly Sharer[]): ReadonlySet<string> => new Set(sharers.map(({ id }) => id));

export const createPluginDrivers = (deps: PluginDriversDeps): PluginDrivers => {
  const { sharers, issuer, isFormerLife, reachable, allowed, clock, log, signal } = deps;
  const self = controllerOf(issuer);
  const grown = createEmitter<[plugin: string]>();
  const counted = new Map<string, number>();
  let lives: ReadonlyMap<string, Seen> = new Map();
  let shared: ReadonlyMap<string, readonly Sharer[]> = new Map();
  let spreads: ReadonlyMap<string, Spread> = new Map();
  let beat = 0;
  let leaving = false;
  let rates: Readonly<Record<string, number>> = {};
  /** When the first look had ended, and when the last one began: a look that was held up on its way tells of its beginning. */
  let looks: { readonly first: number; readonly last: number } | undefined;

  const silentFor = ({ movedAt }: Seen): number => (looks?.last ?? movedAt) - movedAt;
  const over = (seen: Seen): boolean => silentFor(seen) > expiryMs; // PD2

  const mine = (): StoredSharer => {
    const rate = (plugin: string): number => Math.round((rates[plugin] ?? 0) * keptOf + (counted.get(plugin) ?? 0));
    rates = Object.fromEntries((leaving ? [] : reachable()).map((plugin) => [plugin, rate(plugin)])); // PD3
    counted.clear();
    beat += 1;
    return { issuer, beat, plugins: rates };
  };

  const saw = (found: readonly StoredSharer[], began: number): void => {
    const now = clock.monotonic();
    looks = { first: looks?.first ?? now, last: began };
    const seenNow = (sharer: StoredSharer): Seen => {
      const before = lives.get(sharer.issuer);
      return { sharer, movedAt: before?.sharer.beat === sharer.beat ? before.movedAt : now };
    };
    lives = new Map(found.map((sharer) => [sharer.issuer, seenNow(sharer)])); // PD5
    const before = shared;
    const next = new Map<string, Sharer[]>();
    for (const seen of lives.values()) {
      if (over(seen)) continue;
      const { sharer } = seen;
      for (const [plugin, asked] of Object.entries(sharer.plugins))
        next.set(plugin, [...(next.get(plugin) ?? []), { id: controllerOf(sharer.issuer), asked }]);
    }
    shared = next;
    const spreadOf = (plugin: string, some: readonly Sharer[]): Spread =>
      spreadAfter(spreads.get(plugin) ?? "unlike", some);
    spreads = new Map([...next].map(([plugin, some]) => [plugin, spreadOf(plugin, some)]));
    for (const [plugin, some] of next) {
      const [had, has] = [idsOf(before.get(plugin) ?? [{ id: self, asked: 0 }]), idsOf(some)];
      if (had.size === has.size && had.isSubsetOf(has)) continue;
      log.info("the calls of a plugin are shared anew", { plugin, controllers: [...has].join(" ") });
      // A sharer that comes takes away from the others; what it leaves them they have already.
      if (has.has(self) && !(had.has(self) && had.isSubsetOf(has))) grown.tell(plugin);
    }
  };

  const look = async (): Promise<void> => {
    const [own, began] = [mine(), clock.monotonic()];
    if (sharers === undefined) return saw([own], began);
    const gone = [...lives.keys()].filter(forgotten);
    saw(await sharers.tell(own, ({ issuer: life }) => gone.includes(life)), began);
  };

  const forgotten = (life: string): boolean => {
    const seen = lives.get(life);
    return seen !== undefined && silentFor(seen) > forgetMs;
  };

  /** PD4 */
  const divides = ({ maxConcurrentCalls, exclusiveMethods }: Allowed, count: number): boolean =>
    exclusiveMethods.length === 0 && maxConcurrentCalls >= count;

  const drives = (plugin: string, key: string): boolean => {
    const some = shared.get(plugin) ?? [];
    return (sharerOf(some, divides(allowed(plugin), some.length) ? key : plugin) ?? self) === self;
  };

  return {
    drives,
    keeps(plugin, key) {
      counted.set(plugin, (counted.get(plugin) ?? 0) + 1);
      const some = shared.get(plugin) ?? [];
      const kept = spreads.get(plugin) !== "unlike" && some.some(({ id }) => id === self);
      return (kept && divides(allowed(plugin), some.length)) || drives(plugin, key);
    },
    isAway(life) {
      if (isFormerLife(life)) return true;
      if (life === issuer || looks === undefined) return false;
      const seen = lives.get(life);
      return seen === undefined ? looks.last - looks.first > expiryMs : over(seen);
    },
    shareOf(plugin, all) {
      const count = shared.get(plugin)?.length ?? 1;
      if (count < 2 || !divides(all, count)) return all;
      const part = (whole: number): number => Math.max(1, Math.floor(whole / count));
      return {
        ...all,
        maxConcurrentCalls: part(all.maxConcurrentCalls),
        maxConcurrentAttachesPerNode: part(all.maxConcurrentAttachesPerNode),
      };
    },
    // PD4: another controller may have left a call to this one before this one has heard that it is its to make.
    reconsider: grown.tell,
    onGrown: grown.on,
    run: () =>
      every(renewMs, look, {
        signal,
        clock,
        immediate: true,
        // PD1: without the store nothing can be committed either.
        onError: (error) => log.warn("how the calls of plugins are shared cannot be settled now", { error }),
      }),
    leave() {
      leaving = true;
      return look();
    },
    signOff: async () => await sharers?.remove(issuer),
  };
};
