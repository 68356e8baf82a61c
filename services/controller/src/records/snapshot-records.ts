/**
 * Records of snapshots and groups, and the decisions about them.
 *
 * R1 A decision is stored only over the revision it was made from, a group's together with the records of all its snapshots.
 * R2 An id of the backend belongs to one record: who learns of one is alone with it, or learns nothing.
 */

import type { Moment } from "../domain/moment.ts";
import { type CallNews, givenTo } from "../domain/open-call.ts";
import type { RouteOf } from "../domain/plugin/instance-reach.ts";
import { changeOfCut } from "../domain/quota/quota.ts";
import type { AuditedAs } from "../domain/repair/audit.ts";
import { type CutRecord, type CutRef, cutKey, membersOf, refOfCutKey } from "../domain/snapshot/snapshot.ts";
import type { CutChange } from "../domain/snapshot/snapshot-change.ts";
import type { AggregateRef, Commit, IndexEntry, RecordWrite } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { keepsOpenCall } from "./call-open-error.ts";
import { type CallOrders, createCallOrders } from "./call-orders.ts";
import type { Changes } from "./changes.ts";
import { changedAllTheTime } from "./commit-rounds.ts";
import { createDamagedRecords } from "./damaged-records.ts";
import { type Cause, eventBody, momentsOf } from "./event-body.ts";
import {
  createRecordTable,
  type RecordPage,
  type RecordResult,
  type RecordTableDeps,
  type Versioned,
} from "./record-table.ts";
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

export type VersionedCut = Versioned<CutRecord>;

export type CutResult = RecordResult<CutRecord>;

export type CutExpectation = NonNullable<Commit["expects"]>[number];

export interface CutRecords {
  get(ref: CutRef): Promise<VersionedCut | undefined>;
  /** Without what is damaged; `whole`: RECORD_DAMAGED in place of an answer without it. */
  list(
    index: CutIndex,
    value: string,
    page: RecordPage,
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
  /** What the calls of this controller's intents carry. */
  readonly orders: CallOrders;
  due(limit: number): Promise<readonly string[]>;
  nextDue(): Promise<number | undefined>;
  /** Moves it to its next due time, although nothing changed. */
  reschedule(key: string): Promise<void>;
  onCommit(listener: (notice: { readonly key: string; readonly due: number | undefined }) => void): () => void;
}

export interface CutRecordsDeps extends RecordTableDeps {
  readonly store: Store;
  readonly issuer: string;
  readonly changes: Changes;
  /** Which instance the call of a new intent is given to; without it the controller that drives the plugin decides. */
  readonly route?: RouteOf | undefined;
}

/** A question whether a cut is ready may be far away: its instance is chosen when it is asked. */
const callsNow = (record: CutRecord, at: Moment): boolean => record.attempts.nextTry <= at.now;

const noteOf = (record: CutRecord, rev: number, at: Moment, state: string = record.state): string =>
  eventBody(
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
    { untaken: record.intent !== undefined && record.intent.via === undefined, anyone: record.bars.length > 0 },
  );

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

const aloneWith = (alone: readonly IndexEntry[]): Pick<Commit, "alone"> => (alone.length === 0 ? {} : { alone });

export const createCutRecords = (deps: CutRecordsDeps): CutRecords => {
  const { store, clock, changes, route, damages = createDamagedRecords() } = deps;
  const given = (record: CutRecord, at: Moment): CutRecord =>
    callsNow(record, at) ? givenTo(record, at, (r) => route?.(r, cutKey(r))) : record;
  const orders = createCallOrders(deps.issuer);
  const moment = momentsOf(deps);
  const listeners = new Set<(notice: { readonly key: string; readonly due: number | undefined }) => void>();

  const table = createRecordTable<CutRef, CutRecord>(
    { ...deps, damages },
    {
      refOf: cutRef,
      read: decodeCut,
      encode: (record, now) => encodeCut(record, 0, now).write,
      counts: changeOfCut,
      busy: ({ kind, namespace, id }) => changedAllTheTime(`${kind} ${namespace}/${id}`, { namespace, [kind]: id }),
    },
  );

  const revsOf = async (refs: readonly AggregateRef[]): Promise<readonly number[]> =>
    refs.length === 0 ? [] : (await store.getMany(refs)).map((found) => found?.rev ?? 0);

  const tell = (record: CutRecord, due: number | undefined): void => {
    changes.publish(...partsOf(record).map(cutKey));
    for (const listener of listeners) listener({ key: cutKey(record), due });
  };

  const dueOf = (record: CutRecord): number | undefined => encodeCut(record, 0, clock.now()).due;

  /** R1: the records of a group's snapshots, and the tombstones of what goes. */
  const besideOf = async (before: CutRecord, after: CutChange, { now }: Moment): Promise<readonly RecordWrite[]> => {
    const parts = partsOf(after ?? before);
    const members = parts.slice(1);
    const revs = await revsOf(members.map(cutRef));
    if (after !== null) return members.map((member, i) => encodeCut(member, revs[i] ?? 0, now).write);
    const left = await revsOf(parts.map(cutTombstoneRef));
    return [
      ...members.flatMap((member, i) => (revs[i] ? [encodeCutRemoval(member, revs[i])] : [])),
      ...parts.map((part, i) => encodeCutTombstone(part, left[i] ?? 0, now)),
    ];
  };

  return {
    get: table.get,
    orders,
    async list(index, value, page) {
      const { records, next } = await table.list({ index, value }, page);
      return { cuts: records, next };
    },
    async deleted(ref) {
      const stored = await store.get(cutTombstoneRef(ref));
      return stored && damages.read(stored, decodeCutTombstone);
    },
    async insert(make, expects, options) {
      const at = moment(options);
      const record = given(make(at), at);
      const members = partsOf(record).slice(1);
      let tried = false;
      let found: "stored" | "exists" | "moved" = "stored";
      const { crowded, order } = await table.insert(record, async (before) => {
        if (before?.record.uid === record.uid) return undefined;
        if (tried) {
          const there = before !== undefined || (await revsOf(members.map(cutRef))).some((rev) => rev > 0);
          found = there ? "exists" : "moved";
          return undefined;
        }
        tried = true;
        return {
          opId: at.opId,
          record,
          note: noteOf(record, 1, at),
          audit: options?.audit,
          beside: members.map((member) => encodeCut(member, 0, at.now).write),
          requiresVetted: true, // I8: nothing is made out of a store that may have forgotten what it has.
          expects,
          ...aloneWith(externalIdsOf(record).map((id) => externalEntry(record.plugin, id))), // R2
        };
      });
      if (crowded) return "owned";
      if (order !== undefined) orders.note(cutKey(record), record.intent, order);
      if (found === "stored") tell(record, dueOf(record));
      return found;
    },
    async change(ref, decide, options) {
      let told: CutRecord | undefined;
      const result = await table.change(ref, async (before) => {
        if (before === undefined) return undefined;
        const at = moment(options);
        const decided = decide(before.record, at);
        if (decided === before.record) return undefined;
        keepsOpenCall(before.record, decided, options?.settles);
        const after = decided === null ? null : given(decided, at);
        told = after ?? before.record;
        return {
          opId: at.opId,
          record: after,
          note: noteOf(told, before.rev + 1, at, after === null ? "DELETED" : told.state),
          audit: options?.audit,
          beside: await besideOf(before.record, after, at),
          ...aloneWith([...learned(before.record, after), ...(options?.alone?.(before.record) ?? [])]),
        };
      });
      if (result.order !== undefined) orders.note(cutKey(ref), result.now?.record.intent, result.order);
      if (result.changed && told !== undefined) tell(told, result.now && dueOf(result.now.record));
      return result;
    },
    due: async (limit) => (await store.due(cutQueue, clock.now(), limit)).map(({ ref }) => `${ref.kind}:${ref.key}`),
    nextDue: () => store.nextDue(cutQueue),
    async reschedule(key) {
      await table.change(refOfCutKey(key), (before) => before && { record: before.record });
    },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};
