/**
 * Decisions over volume records, several at once, and over records that are remembered in place of read.
 *
 * V1 A decision is stored only over the very revision it was made from. V2 A decision that changes nothing, or throws, was made
 * from a record that was read, not only remembered. V3 All records of one decision are stored in one commit, or none.
 * V4 Within this process decisions on one volume are made one after the other, so that only other controllers cause conflicts.
 * V5 No decision lets go of a call that may be open at the plugin, unless it says that this call has ended.
 */
import type { CommitOrder } from "@holdfast/model/call-order";
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { type Change, unchanged } from "../../domain/change.ts";
import type { ClaimTombstone } from "../../domain/claim/claim.ts";
import type { Moment } from "../../domain/moment.ts";
import { type CallNews, givenTo, type Seat } from "../../domain/open-call.ts";
import type { RouteOf } from "../../domain/plugin/instance-reach.ts";
import { type CountWith, uncounted } from "../../domain/quota/quota.ts";
import type { RetryRule } from "../../domain/retry.ts";
import type { Commit, IndexEntry } from "../../domain/store-types.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { Ids, Store } from "../../ports.ts";
import type { AttachSlots } from "../attachment/attach-slots.ts";
import { keepsOpenCall } from "../call-open-error.ts";
import { type CallOrders, createCallOrders } from "../call-orders.ts";
import { type CommitRounds, changedAllTheTime, createCommitRounds, toldRound } from "../commit-rounds.ts";
import type { DamagedRecords } from "../damaged-records.ts";
import { momentsOf } from "../event-body.ts";
import { countedCommit } from "../quota/counted-commit.ts";
import type { RecordCache, VersionedVolume } from "../record-cache.ts";
import { type ChangeOptions, type GrantTerms, type LedCommit, termsOf } from "./change-options.ts";
import type { CommitNotice } from "./commit-notice.ts";
import { createCommitOnce, type Stored } from "./commit-once.ts";
import { createFreshKeys } from "./fresh-keys.ts";
import { staleAgainst } from "./stale-against.ts";
import { decodeVolume, volumeRef } from "./volume-codec.ts";
import { type AttachLimitOf, buildCommit, relatedOf } from "./volume-commit.ts";
import { remainsOf } from "./volume-remains.ts";

export interface ChangeResult {
  /** The record after the decision; null when it was removed or there is none. */
  readonly volume: VolumeRecord | null;
  readonly rev: number;
  readonly ended: readonly ClaimTombstone[];
  /** False: the decision left everything as it was, and nothing was written. */
  readonly changed: boolean;
  /** Of the commit that changed it. */
  readonly order?: CommitOrder;
  /** Somebody carries an entry that the decision has to be alone with: nothing was written. */
  readonly crowded?: true;
}

export type Decide = (volume: VolumeRecord, at: Moment) => Change;
/** One change a volume, in the order of the refs; undefined leaves that volume as it is. */
export type DecideMany = (
  volumes: readonly (VolumeRecord | undefined)[],
  at: Moment,
) => readonly (Change | undefined)[];

type Found = readonly (VersionedVolume | undefined)[];

export interface VolumeDecisionDeps {
  readonly store: Store;
  readonly cache: RecordCache;
  readonly clock: Clock;
  readonly ids: Ids;
  /** Controller and life; stands in every intent. */
  readonly issuer: string;
  readonly signal: AbortSignal;
  readonly slots: AttachSlots;
  /** How many volumes of a plugin a node takes. */
  readonly attachLimit: AttachLimitOf;
  /** Whether this controller has the link of the node's agent; all of them when absent. */
  readonly linked?: ((node: string) => boolean) | undefined;
  readonly damages: DamagedRecords;
  readonly grants?: GrantTerms | undefined;
  /** Of the quotas of namespaces; nothing is counted without it. */
  readonly counted?: CountWith | undefined;
  /** Which instance the call of a new intent is given to; without it the controller that drives the plugin decides. */
  readonly route?: RouteOf | undefined;
  readonly retry?: RetryRule | undefined;
  /** See fresh-keys.ts. */
  readonly endOfTurn?: ((run: () => void) => void) | undefined;
  readonly tell: (notice: CommitNotice) => void;
  /** Asked before each commit. A promise: something leaves before the commit, and has left when the promise resolves. */
  readonly lead: (
    found: Found,
    decision: readonly (Change | undefined)[],
    commit: LedCommit,
  ) => Promise<unknown> | undefined;
}

export interface VolumeDecisions {
  moment(options?: ChangeOptions): Moment;
  readonly orders: CallOrders;
  readonly route: (volume: VolumeRecord) => Seat | undefined;
  /** Reads, and remembers what was read. */
  read(refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]>;
  /** What is remembered, and a read for the rest. */
  recentMany(refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]>;
  recent(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  /** As the store has told of it in this turn of the event loop: by the answer of a commit, or of a read that is made now. */
  current(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  changeMany(refs: readonly VolumeRef[], decide: DecideMany, options?: ChangeOptions): Promise<readonly ChangeResult[]>;
  /** The same while no other volume carries the entry. undefined = one does, and nothing was written. */
  changeAlone(
    alone: IndexEntry,
    refs: readonly VolumeRef[],
    decide: DecideMany,
    options?: ChangeOptions,
  ): Promise<readonly ChangeResult[] | undefined>;
  /** Nobody else of this process decides on these volumes while `fn` runs. */
  exclusively<T>(refs: readonly VolumeRef[], fn: () => Promise<T>): Promise<T>;
  /** Something of this process decides on the volume of that key now. */
  busy(key: string): boolean;
  /** undefined = a conflict, or nobody knows whether it was stored; what was remembered of the volumes is forgotten. */
  commitOnce(commit: Commit, refs: readonly VolumeRef[]): Promise<Stored | "crowded" | undefined>;
  readonly rounds: CommitRounds["run"];
  commits(): number;
}

export const createVolumeDecisions = (deps: VolumeDecisionDeps): VolumeDecisions => {
  const { store, cache, signal, slots, attachLimit, damages, tell, linked = () => true, counted = uncounted } = deps;
  const route = (v: VolumeRecord): Seat | undefined =>
    v.intent?.op === "validate" ? undefined : deps.route?.(v, volumeKey(v));
  const lanes = createKeyedLanes();
  const rounds = createCommitRounds(deps);
  const fresh = createFreshKeys(deps.endOfTurn);
  const heard = (key: string): VersionedVolume | undefined => (fresh.has(key) ? cache.get(key) : undefined);
  const orders = createCallOrders(deps.issuer);
  const moment = momentsOf(deps);
  let commits = 0;
  const commitOnce = createCommitOnce({ ...deps, rounds });
  const attempt: VolumeDecisions["commitOnce"] = (commit, refs) => {
    commits += 1;
    return commitOnce(commit, refs);
  };

  const read = async (refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]> => {
    const stored = await store.getMany(refs.map(volumeRef));
    return stored.map((record, i) => {
      const ref = refs[i];
      if (ref === undefined) return undefined;
      if (record === undefined) {
        cache.drop(volumeKey(ref));
        slots.saw(volumeKey(ref), null);
        return undefined;
      }
      const kept = cache.keep(volumeKey(ref), { volume: damages.read(record, decodeVolume), rev: record.rev });
      slots.saw(volumeKey(ref), (cache.get(volumeKey(ref)) ?? kept).volume);
      return kept;
    });
  };

  const recall = (ref: VolumeRef): VersionedVolume | undefined => {
    const found = cache.get(volumeKey(ref));
    // It may be remembered from a list, which tells nobody who waits.
    if (found !== undefined) slots.saw(volumeKey(ref), found.volume);
    return found;
  };

  const known = async (refs: readonly VolumeRef[], anew: boolean) => {
    const held = refs.map((ref) => (anew ? undefined : recall(ref)));
    const missing = refs.filter((_, i) => held[i] === undefined);
    if (missing.length === 0) return { found: held, remembered: true };
    const fetched = [...(await read(missing))];
    return { found: held.map((h) => h ?? fetched.shift()), remembered: missing.length < refs.length };
  };

  /** Holds the lanes of all keys, always in the same order, so that two sets never wait for each other. */
  const within = <T>(keys: readonly string[], fn: () => Promise<T>): Promise<T> => {
    const [first, ...rest] = keys;
    return first === undefined ? fn() : lanes.run(first, signal, rest.length === 0 ? fn : () => within(rest, fn));
  };

  const exclusively = <T>(refs: readonly VolumeRef[], fn: () => Promise<T>): Promise<T> =>
    within([...new Set(refs.map(volumeKey))].sort(), fn);

  /** One round: undefined = somebody else was faster, or nobody knows: read and decide again. */
  const round = async (
    refs: readonly VolumeRef[],
    decide: DecideMany,
    anew: boolean,
    options: ChangeOptions,
    over: LedCommit["over"],
  ) => {
    const { found, remembered } = await known(refs, anew);
    const at = moment(options);
    const judgedBy = deps.grants?.judgedBy() ?? [];
    const decision = decideOn(found, decide, at, remembered, options.settles);
    if (decision === undefined) return undefined;
    if (decision.every((d) => d === undefined)) return remembered ? undefined : found.map(asBefore); // V2
    const stale = staleAgainst(options.expectedRev, found[0]);
    if (stale !== undefined && remembered) return undefined; // V2
    if (stale !== undefined) throw stale;
    const ahead = deps.lead(found, decision, { leads: options.leads === true, over });
    if (ahead !== undefined) await ahead;
    const named = (change: Change | undefined) => change?.volume?.externalId;
    const renames = decision.some((change, i) => change !== undefined && named(change) !== found[i]?.volume.externalId);
    const remains = renames
      ? await Promise.all(decision.map((change, i) => remainsOf(store, found[i]?.volume, change)))
      : [];
    const built = buildCommit(found, decision, remains, at, attachLimit, linked);
    const asked = options.expects === undefined ? [] : await options.expects();
    const terms = termsOf(options, found, built.commit.requiresVetted ? [...asked, ...judgedBy] : asked);
    const counts = { found, decided: decision, remembered };
    const wanted = { ...built.commit, ...terms };
    const ended = slots.opens(counts);
    const result = await countedCommit(counted, counts, wanted, (commit) => attempt(commit, refs)).finally(ended);
    if (result === undefined) slots.doubt([...found.map((f) => f?.volume), ...decision.map((d) => d?.volume)]);
    if (result === undefined || result === "crowded") return result;
    const results = decision.map((change, i): ChangeResult => {
      const before = found[i];
      if (change === undefined || before === undefined) return asBefore(before);
      const key = volumeKey(before.volume);
      const rev = before.rev + 1;
      if (change.volume === null) cache.drop(key);
      else cache.keep(key, { volume: change.volume, rev });
      if (!result.repeated) fresh.note(key);
      orders.note(key, change.volume?.intent, result.order);
      slots.stored(before.volume, change.volume);
      return { volume: change.volume, rev, ended: change.ended, changed: true, order: result.order };
    });
    tell({
      keys: refs.filter((_, i) => decision[i] !== undefined).map(volumeKey),
      related: decision.flatMap((change, i) => relatedOf(found[i]?.volume, change)),
      ended: decision.flatMap((change) => change?.ended ?? []),
      due: built.due,
    });
    return results;
  };

  /** undefined = decide again from a fresh read. */
  const decideOn = (found: Found, decide: DecideMany, at: Moment, remembered: boolean, settles?: CallNews) => {
    try {
      const wanted = decide(
        found.map((f) => f?.volume),
        at,
      );
      return found.map((before, i) => {
        const change = wanted[i];
        if (before === undefined || change === undefined || unchanged(before.volume, change)) return undefined;
        keepsOpenCall(before.volume, change.volume, settles); // V5
        return change.volume === null ? change : { ...change, volume: givenTo(change.volume, at, route) };
      });
    } catch (error) {
      if (remembered) return undefined; // V2
      throw error;
    }
  };

  const decided = (refs: readonly VolumeRef[], decide: DecideMany, options: ChangeOptions) =>
    exclusively(refs, () =>
      rounds.run(
        (n) => toldRound((over) => round(refs, decide, n > 0, options, over)),
        () =>
          changedAllTheTime(`volume ${refs.map(volumeKey).join(", ")}`, {
            namespace: refs[0]?.namespace ?? "",
            volume: refs[0]?.id ?? "",
          }),
      ),
    );

  return {
    moment,
    busy: lanes.busy,
    orders,
    route,
    read,
    recentMany: async (refs) => (await known(refs, false)).found,
    async recent(ref) {
      return recall(ref) ?? (await read([ref]))[0];
    },
    current: async (ref) => heard(volumeKey(ref)) ?? (await read([ref]))[0],
    async changeMany(refs, decide, options = {}) {
      const results = await decided(refs, decide, options);
      return results === "crowded" ? refs.map(() => ({ ...asBefore(undefined), crowded: true })) : results;
    },
    async changeAlone(alone, refs, decide, options = {}) {
      const results = await decided(refs, decide, { ...options, alone: () => [alone] });
      return results === "crowded" ? undefined : results;
    },
    exclusively,
    commitOnce: attempt,
    rounds: rounds.run,
    commits: () => commits,
  };
};

const asBefore = (before: VersionedVolume | undefined): ChangeResult => ({
  volume: before?.volume ?? null,
  rev: before?.rev ?? 0,
  ...{ ended: [], changed: false },
});
