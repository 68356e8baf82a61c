/**
 * Records of snapshots and groups: read, decide, commit; on a conflict read and decide again.
 *
 * R1 A decision is stored only over the revision it was made from, a group's together with the records of all its snapshots.
 * R2 An id of the backend belongs to one record: who learns of one is alone with it, or learns nothing.
 * R3 Within this process decisions on one record are made one after the other.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AuditedAs } from "../domain/audit.ts";
import type { RouteOf } from "../domain/instance-reach.ts";
import type { Moment } from "../domain/moment.ts";
import { type CallNews, givenTo } from "../domain/open-call.ts";
import { defaultRetry } from "../domain/retry.ts";
import { type CutRecord, type CutRef, cutKey, membersOf, refOfCutKey } from "../domain/snapshot.ts";
import type { CutChange } from "../domain/snapshot-change.ts";
import type { AggregateRef, Commit, IndexEntry, RecordWrite, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { auditOf } from "./audit-records.ts";
import { keepsOpenCall } from "./call-open-error.ts";
import type { Changes } from "./changes.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { type Cause, causeOf, eventBody } from "./event-body.ts";
import {
  type CutIndex,
  type CutTombstone,
  cutQueue,
  cutRef,
  cutTombstoneRef,
  decodeCut,
  decodeCutTombstone,
  encodeCut,
  encodeCutRemoval,
  encodeCutTombstone,
  externalEntry,
} from "./snapshot-codec.ts";

export interface VersionedCut {
  readonly record: CutRecord;
  readonly rev: number;
}

export interface CutResult {
  /** After the decision; undefined when there is none (any more). */
  readonly now: VersionedCut | undefined;
  readonly changed: boolean;
  /** Somebody else carries an entry that it would have to be alone with: nothing was written. */
  readonly crowded?: true;
}

export type CutExpectation = NonNullable<Commit["expects"]>[number];

export interface CutRecords {
  get(ref: CutRef): Promise<VersionedCut | undefined>;
  /** Without what is damaged; `whole`: RECORD_DAMAGED in place of an answer without it. */
  list(
    index: CutIndex,
    value: string,
    page: { readonly after?: string | undefined; readonly limit: number; readonly whole?: true },
  ): Promise<{ readonly cuts: readonly VersionedCut[]; readonly next: string | undefined }>;
  deleted(ref: CutRef): Promise<CutTombstone | undefined>;
  /**
   * `moved`: what it relies on is no longer as expected; `exists`: there is one already; `owned`: another record stands for what it
   * names at the backend. Nothing was written then. `audit`: the word that it rests on, stored with it or not at all.
   */
  insert(
    make: (at: Moment) => CutRecord,
    expects: readonly CutExpectation[],
    options?: Cause & { readonly audit?: AuditedAs },
  ): Promise<"stored" | "exists" | "moved" | "owned">;
  /** `alone`: entries that nobody else may carry for it to be stored. */
  change(
    ref: CutRef,
    decide: (record: CutRecord, at: Moment) => CutChange,
    options?: Cause & {
      readonly alone?: (record: CutRecord) => readonly IndexEntry[];
      /** The id of the intent that the change may drop or replace although its call was given to an instance. */
      readonly settles?: CallNews | undefined;
      readonly audit?: AuditedAs;
    },
  ): Promise<CutResult>;
  due(limit: number): Promise<readonly string[]>;
  nextDue(): Promise<number | undefined>;
  /** Moves it to its next due time, although nothing changed. */
  reschedule(key: string): Promise<void>;
  onCommit(listener: (notice: { readonly key: string; readonly due: number | undefined }) => void): () => void;
}

export interface CutRecordsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly issuer: string;
  readonly changes: Changes;
  readonly signal: AbortSignal;
  readonly damages?: DamagedRecords;
  /** Which instance the call of a new intent is given to; without it the controller that drives the plugin decides. */
  readonly route?: RouteOf | undefined;
}

const versioned = (stored: StoredRecord): VersionedCut => ({ record: decodeCut(stored), rev: stored.rev });

/** A question whether a cut is ready may be far away: its instance is chosen when it is asked. */
const callsNow = (record: CutRecord, at: Moment): boolean => record.attempts.nextTry <= at.now;

const maxRounds = 12;

const noteOf = (record: CutRecord, rev: number, at: Moment, state: string = record.state) => ({
  type: record.kind,
  ref: cutRef(record),
  body: eventBody(
    {
      body: {
        namespace: record.namespace,
        [record.kind]: record.id,
        uid: record.uid,
        plugin: record.plugin,
        state,
        ...(record.blocked === undefined ? {} : { blocked: record.blocked.reason }),
        ...(record.failure === undefined ? {} : { failure: record.failure.reason }),
      },
    },
    rev,
    at,
  ),
});

const partsOf = (record: CutRecord): readonly CutRecord[] =>
  record.kind === "group" ? [record, ...membersOf(record)] : [record];

const externalIdsOf = (record: CutRecord): readonly string[] =>
  partsOf(record).flatMap((part) => (part.kind === "snapshot" && part.externalId !== "" ? [part.externalId] : []));

/** R2: the ids that the record would carry for the first time. */
const learned = (before: CutRecord, after: CutChange): readonly IndexEntry[] => {
  if (after === null) return [];
  const known = new Set(externalIdsOf(before));
  return externalIdsOf(after)
    .filter((id) => !known.has(id))
    .map((id) => externalEntry(after.plugin, id));
};

export const createCutRecords = (deps: CutRecordsDeps): CutRecords => {
  const { store, clock, ids, issuer, changes, signal, route, damages = createDamagedRecords() } = deps;
  const given = (record: CutRecord, at: Moment): CutRecord =>
    callsNow(record, at) ? givenTo(record, at, route) : record;
  const lanes = createKeyedLanes();
  const listeners = new Set<(notice: { readonly key: string; readonly due: number | undefined }) => void>();

  const moment = (cause?: Cause): Moment => ({
    now: clock.now(),
    issuer,
    opId: ids.uuid(),
    random: ids.random(),
    retry: defaultRetry,
    ...causeOf(cause),
  });

  const read = async (ref: CutRef): Promise<VersionedCut | undefined> => {
    const stored = await store.get(cutRef(ref));
    return stored && damages.read(stored, versioned);
  };

  const revsOf = async (refs: readonly AggregateRef[]): Promise<readonly number[]> =>
    refs.length === 0 ? [] : (await store.getMany(refs)).map((found) => found?.rev ?? 0);

  const tell = (record: CutRecord, due: number | undefined): void => {
    changes.publish(...partsOf(record).map(cutKey));
    for (const listener of listeners) listener({ key: cutKey(record), due });
  };

  /** Whether it was stored; undefined = a conflict, or nobody knows: read and decide again. */
  const attempt = async (commit: Commit): Promise<"stored" | "crowded" | undefined> => {
    try {
      const result = await store.commit(commit);
      if (result.ok) return "stored";
      return result.crowded ? "crowded" : undefined;
    } catch (error) {
      if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") return undefined;
      throw error;
    }
  };

  const pause = async (round: number): Promise<void> => {
    if (round > 0) await clock.sleep(Math.ceil(ids.random() * 2 ** Math.min(round, 7)), signal);
  };

  const writesOf = async (before: VersionedCut, after: CutChange, at: Moment): Promise<readonly RecordWrite[]> => {
    const parts = partsOf(after ?? before.record);
    const revs = [before.rev, ...(await revsOf(parts.slice(1).map(cutRef)))];
    if (after !== null) return parts.map((part, i) => encodeCut(part, revs[i] ?? 0, at.now).write); // R1
    const left = await revsOf(parts.map(cutTombstoneRef));
    return parts.flatMap((part, i) => [
      ...((revs[i] ?? 0) === 0 ? [] : [encodeCutRemoval(part, revs[i] ?? 0)]),
      encodeCutTombstone(part, left[i] ?? 0, at.now),
    ]);
  };

  const round = async (
    ref: CutRef,
    decide: Parameters<CutRecords["change"]>[1],
    options: Parameters<CutRecords["change"]>[2],
  ): Promise<CutResult | undefined> => {
    const before = await read(ref);
    if (before === undefined) return { now: undefined, changed: false };
    const at = moment(options);
    const decided = decide(before.record, at);
    if (decided === before.record) return { now: before, changed: false };
    keepsOpenCall(before.record, decided, options?.settles);
    const after = decided === null ? null : given(decided, at);
    const rev = before.rev + 1;
    const alone = [...learned(before.record, after), ...(options?.alone?.(before.record) ?? [])];
    const audited = auditOf(options?.audit, { now: at.now, revisionBefore: before.rev }, cutRef(ref), rev);
    const note = after === null ? noteOf(before.record, rev, at, "DELETED") : noteOf(after, rev, at);
    const stored = await attempt({
      opId: at.opId,
      writes: [...(await writesOf(before, after, at)), ...audited.writes],
      events: [note, ...audited.events],
      requiresVetted: false,
      ...(alone.length === 0 ? {} : { alone }),
    });
    if (stored === undefined) return undefined;
    if (stored === "crowded") return { now: before, changed: false, crowded: true };
    const due = after === null ? undefined : encodeCut(after, rev, at.now).due;
    tell(after ?? before.record, due);
    return { now: after === null ? undefined : { record: after, rev }, changed: true };
  };

  return {
    get: read,
    async list(index, value, { after, limit, whole }) {
      const page = await store.list({ index, value, limit, ...(after === undefined ? {} : { after }) });
      return { cuts: damages.readEach(page.records, versioned, whole), next: page.next };
    },
    async deleted(ref) {
      const stored = await store.get(cutTombstoneRef(ref));
      return stored && damages.read(stored, decodeCutTombstone);
    },
    async insert(make, expects, options) {
      const at = moment(options);
      const record = given(make(at), at);
      const parts = partsOf(record);
      const { due } = encodeCut(record, 0, at.now);
      const audited = auditOf(options?.audit, { now: at.now, revisionBefore: 0 }, cutRef(record), 1);
      const alone = externalIdsOf(record).map((id) => externalEntry(record.plugin, id)); // R2
      const commit: Commit = {
        opId: at.opId,
        writes: [...parts.map((part) => encodeCut(part, 0, at.now).write), ...audited.writes],
        events: [noteOf(record, 1, at), ...audited.events],
        requiresVetted: true, // I8: nothing is made out of a store that may have forgotten what it has.
        expects,
        ...(alone.length === 0 ? {} : { alone }),
      };
      return await lanes.run(cutKey(record), signal, async () => {
        const stored = await attempt(commit);
        if (stored === "crowded") return "owned";
        // A conflict or a lost answer: what stands there now tells whose it is.
        const standing = stored === "stored" ? undefined : await store.getMany(parts.map(cutRef));
        const ours = standing?.[0] && damages.read(standing[0], decodeCut).uid === record.uid;
        if (standing !== undefined && !ours) return standing.some((one) => one !== undefined) ? "exists" : "moved";
        tell(record, due);
        return "stored";
      });
    },
    change: (ref, decide, options) =>
      lanes.run(cutKey(ref), signal, async () => {
        for (let n = 0; n < maxRounds; n += 1) {
          await pause(n);
          const done = await round(ref, decide, options);
          if (done !== undefined) return done;
        }
        throw new HoldfastError({
          kind: "aborted",
          reason: "REVISION_CONFLICT",
          message: `${ref.kind} ${ref.namespace}/${ref.id} is being changed by others all the time; repeat the request`,
          metadata: { namespace: ref.namespace, [ref.kind]: ref.id },
        });
      }),
    due: async (limit) => (await store.due(cutQueue, clock.now(), limit)).map(({ ref }) => `${ref.kind}:${ref.key}`),
    nextDue: () => store.nextDue(cutQueue),
    reschedule: (key) =>
      lanes.run(key, signal, async () => {
        const before = await read(refOfCutKey(key));
        if (before === undefined) return;
        const at = moment();
        const { write } = encodeCut(before.record, before.rev, at.now);
        await attempt({ opId: at.opId, writes: [write], events: [], requiresVetted: false });
      }),
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};
