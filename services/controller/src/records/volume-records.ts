/**
 * Volume records with their meaning: read, decide, commit; on a conflict read and decide again.
 *
 * V1 A decision is stored only over the very revision it was made from. V2 A decision that changes nothing, or throws, was made
 * from a record that was read, not only remembered. V3 All records of one decision are stored in one commit, or none.
 * V4 Within this process decisions on one volume are made one after the other, so that only other controllers cause conflicts.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type Change, unchanged } from "../domain/change.ts";
import type { ClaimTombstone } from "../domain/claim.ts";
import type { Moment } from "../domain/claim-change.ts";
import { defaultRetry, type RetryRule } from "../domain/retry.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../domain/volume.ts";
import type { Ids, Store } from "../ports.ts";
import type { Changes } from "./changes.ts";
import { createRecordCache } from "./record-cache.ts";
import {
  decodeClaimTombstone,
  decodeVolume,
  decodeVolumeTombstone,
  encodeVolume,
  refOfKey,
  type TombstoneIndex,
  type VolumeIndex,
  type VolumeTombstone,
  volumeRef,
  volumeTombstoneRef,
} from "./volume-codec.ts";
import { buildCommit } from "./volume-commit.ts";

export interface VersionedVolume {
  readonly volume: VolumeRecord;
  readonly rev: number;
}

export interface ChangeOptions {
  /** Goes into the last error of failed attempts. */
  readonly traceId?: string | undefined;
}

export interface ChangeResult {
  /** The record after the decision; null when it was removed or there is none. */
  readonly volume: VolumeRecord | null;
  readonly rev: number;
  readonly ended: readonly ClaimTombstone[];
  /** False: the decision left everything as it was, and nothing was written. */
  readonly changed: boolean;
}

export type Decide = (volume: VolumeRecord, at: Moment) => Change;

/** One change a volume, in the order of the refs; undefined leaves that volume as it is. */
export type DecideMany = (
  volumes: readonly (VolumeRecord | undefined)[],
  at: Moment,
) => readonly (Change | undefined)[];

export interface CommitNotice {
  /** Volume keys. */
  readonly keys: readonly string[];
  /** When the earliest of them wants to be looked at. */
  readonly due: number | undefined;
}

export interface VolumeRecords {
  /** As it is in the store now. */
  get(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  /** As this process knows it; read when it does not. A decision made from it is still compared at the commit. */
  recent(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  getMany(refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]>;
  list(
    index: VolumeIndex,
    value: string,
    page: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<{ readonly volumes: readonly VersionedVolume[]; readonly next: string | undefined }>;
  listEnded(
    index: TombstoneIndex,
    value: string,
    page: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<{ readonly claims: readonly ClaimTombstone[]; readonly next: string | undefined }>;
  deleted(ref: VolumeRef): Promise<VolumeTombstone | undefined>;
  change(ref: VolumeRef, decide: Decide, options?: ChangeOptions): Promise<ChangeResult>;
  changeMany(refs: readonly VolumeRef[], decide: DecideMany, options?: ChangeOptions): Promise<readonly ChangeResult[]>;
  /** False when there is one already; nothing was written then. */
  insert(make: (at: Moment) => Change): Promise<boolean>;
  /** Looks again at `at`, although nothing changed. */
  reschedule(ref: VolumeRef, at: number): Promise<void>;
  /** Another controller wrote revision `rev`. False: this process knows that revision already. */
  learnOf(key: string, rev: number | undefined): boolean;
  forgetAll(): void;
  onCommit(listener: (notice: CommitNotice) => void): () => void;
  /** How many commits were asked of the store; the hot path is held to three and three. */
  commits(): number;
}

export interface VolumeRecordsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: Ids;
  /** Controller and life; stands in every intent. */
  readonly issuer: string;
  readonly changes: Changes;
  readonly signal: AbortSignal;
  readonly retry?: RetryRule;
  readonly remembered?: number;
}

const maxRounds = 12;

export const createVolumeRecords = (deps: VolumeRecordsDeps): VolumeRecords => {
  const { store, clock, ids, issuer, changes, signal, retry = defaultRetry } = deps;
  const cache = createRecordCache(deps.remembered);
  const lanes = createKeyedLanes();
  const listeners = new Set<(notice: CommitNotice) => void>();
  let commits = 0;

  const moment = (options: ChangeOptions | undefined): Moment => ({
    now: clock.now(),
    issuer,
    opId: ids.uuid(),
    random: ids.random(),
    retry,
    ...(options?.traceId === undefined ? {} : { traceId: options.traceId }),
  });

  const getMany = async (refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]> => {
    const stored = await store.getMany(refs.map(volumeRef));
    return stored.map((record, i) => {
      const ref = refs[i];
      if (ref === undefined) return undefined;
      if (record === undefined) {
        cache.drop(volumeKey(ref));
        return undefined;
      }
      const found = { volume: decodeVolume(record), rev: record.rev };
      return cache.keep(volumeKey(ref), found);
    });
  };

  /** What is remembered, and a read for the rest. */
  const known = async (refs: readonly VolumeRef[], fresh: boolean) => {
    const held = fresh ? refs.map(() => undefined) : refs.map((ref) => cache.get(volumeKey(ref)));
    const missing = refs.filter((_, i) => held[i] === undefined);
    if (missing.length === 0) return { found: held, remembered: true };
    const read = [...(await getMany(missing))];
    return { found: held.map((h) => h ?? read.shift()), remembered: missing.length < refs.length };
  };

  const send = async (commit: Parameters<Store["commit"]>[0]) => {
    commits += 1;
    return await store.commit(commit);
  };

  const tell = (notice: CommitNotice): void => {
    changes.publish(...notice.keys);
    for (const listener of listeners) listener(notice);
  };

  /** Holds the lanes of all keys, always in the same order, so that two sets never wait for each other. */
  const within = async <T>(keys: readonly string[], fn: () => Promise<T>): Promise<T> => {
    const [first, ...rest] = keys;
    return first === undefined ? await fn() : await lanes.run(first, signal, () => within(rest, fn));
  };

  const exclusively = <T>(refs: readonly VolumeRef[], fn: () => Promise<T>): Promise<T> =>
    within([...new Set(refs.map(volumeKey))].sort(), fn);

  const pause = async (round: number): Promise<void> => {
    if (round > 0) await clock.sleep(Math.ceil(ids.random() * 2 ** Math.min(round, 7)), signal);
  };

  type Found = readonly (VersionedVolume | undefined)[];

  /** One round: undefined = somebody else was faster, or nobody knows: read and decide again. */
  const round = async (refs: readonly VolumeRef[], decide: DecideMany, fresh: boolean, options?: ChangeOptions) => {
    const { found, remembered } = await known(refs, fresh);
    const at = moment(options);
    const decision = decideOn(found, decide, at, remembered);
    if (decision === undefined) return undefined;
    if (decision.every((d) => d === undefined)) return remembered ? undefined : untouched(found); // V2
    const tombstones = await Promise.all(
      decision.map((d, i) => (d?.volume === null ? store.get(volumeTombstoneRef(refs[i] ?? emptyRef)) : undefined)),
    );
    const built = buildCommit(found, decision, tombstones, at);
    const result = await commitOnce(built.commit, refs);
    if (result === undefined) return undefined;
    const results = decision.map((change, i): ChangeResult => {
      const before = found[i];
      if (change === undefined || before === undefined) return asBefore(before);
      const key = volumeKey(before.volume);
      const rev = before.rev + 1;
      if (change.volume === null) cache.drop(key);
      else cache.keep(key, { volume: change.volume, rev });
      return { volume: change.volume, rev, ended: change.ended, changed: true };
    });
    tell({ keys: refs.filter((_, i) => decision[i] !== undefined).map(volumeKey), due: built.due });
    return results;
  };

  /** undefined = decide again from a fresh read. */
  const decideOn = (found: Found, decide: DecideMany, at: Moment, remembered: boolean) => {
    try {
      const decided = decide(
        found.map((f) => f?.volume),
        at,
      );
      return found.map((before, i) => {
        const change = decided[i];
        return before === undefined || change === undefined || unchanged(before.volume, change) ? undefined : change;
      });
    } catch (error) {
      if (remembered) return undefined; // V2
      throw error;
    }
  };

  const commitOnce = async (commit: Parameters<Store["commit"]>[0], refs: readonly VolumeRef[]) => {
    const forget = () => {
      for (const ref of refs) cache.drop(volumeKey(ref));
    };
    try {
      const result = await send(commit);
      if (result.ok) return result;
      forget(); // V1
      return undefined;
    } catch (error) {
      forget();
      // The next decision sees whether this one was stored: all of them may be made twice.
      if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") return undefined;
      throw error;
    }
  };

  const changeMany: VolumeRecords["changeMany"] = (refs, decide, options) =>
    exclusively(refs, async () => {
      for (let n = 0; n < maxRounds; n += 1) {
        await pause(n - 1);
        const done = await round(refs, decide, n > 0, options);
        if (done !== undefined) return done;
      }
      throw new HoldfastError({
        kind: "aborted",
        reason: "REVISION_CONFLICT",
        message: `volume ${refs.map(volumeKey).join(", ")} is being changed by others all the time; repeat the request`,
        metadata: { namespace: refs[0]?.namespace ?? "", volume: refs[0]?.id ?? "" },
      });
    });

  return {
    async get(ref) {
      const [found] = await getMany([ref]);
      return found;
    },
    async recent(ref) {
      const { found } = await known([ref], false);
      return found[0];
    },
    getMany,
    async list(index, value, { after, limit }) {
      const page = await store.list({ index, value, limit, ...(after === undefined ? {} : { after }) });
      const volumes = page.records.map((r) => ({ volume: decodeVolume(r), rev: r.rev }));
      return { volumes, next: page.next };
    },
    async listEnded(index, value, { after, limit }) {
      const page = await store.list({ index, value, limit, ...(after === undefined ? {} : { after }) });
      return { claims: page.records.map(decodeClaimTombstone), next: page.next };
    },
    async deleted(ref) {
      const stored = await store.get(volumeTombstoneRef(ref));
      return stored === undefined ? undefined : decodeVolumeTombstone(stored);
    },
    async change(ref, decide, options) {
      const [result] = await changeMany(
        [ref],
        ([volume], at) => [volume === undefined ? undefined : decide(volume, at)],
        options,
      );
      return result ?? asBefore(undefined);
    },
    changeMany,
    async insert(make) {
      const at = moment(undefined);
      const { volume, notes } = make(at);
      if (volume === null) return false;
      return await exclusively([volume], async () => {
        const { write, due } = encodeVolume(volume, 0, at.now);
        const events = notes.map((n) => ({
          type: n.type,
          ref: volumeRef(volume),
          body: JSON.stringify({ ...n.body, rev: 1 }),
        }));
        const result = await commitOnce({ opId: at.opId, writes: [write], events, requiresVetted: false }, [volume]);
        const [stored] = result?.ok === true ? [] : await getMany([volume]);
        if (result === undefined && stored?.volume.uid !== volume.uid) return false;
        if (result?.ok === true) cache.keep(volumeKey(volume), { volume, rev: result.revs[0] ?? 1 });
        tell({ keys: [volumeKey(volume)], due });
        return true;
      });
    },
    reschedule: (ref, when) =>
      exclusively([ref], async () => {
        const { found } = await known([ref], false);
        const held = found[0];
        if (held === undefined) return;
        const at = moment(undefined);
        const { write } = encodeVolume(held.volume, held.rev, at.now, when);
        const result = await commitOnce({ opId: at.opId, writes: [write], events: [], requiresVetted: false }, [ref]);
        if (result?.ok === true) cache.keep(volumeKey(ref), { volume: held.volume, rev: held.rev + 1 });
      }),
    learnOf(key, rev) {
      const held = cache.get(key);
      if (held !== undefined && rev !== undefined && held.rev >= rev) return false;
      cache.drop(key);
      changes.publish(volumeKey(refOfKey(key)));
      return true;
    },
    forgetAll() {
      cache.clear();
      changes.publishAll();
    },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    commits: () => commits,
  };
};

const emptyRef: VolumeRef = { namespace: "", id: "" };

const asBefore = (before: VersionedVolume | undefined): ChangeResult => ({
  volume: before?.volume ?? null,
  rev: before?.rev ?? 0,
  ended: [],
  changed: false,
});

const untouched = (found: readonly (VersionedVolume | undefined)[]): readonly ChangeResult[] => found.map(asBefore);
