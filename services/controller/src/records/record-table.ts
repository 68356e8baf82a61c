/**
 * Records of one kind in the store: a kind says how its record is named, read and written, a decision what becomes of one record.
 *
 * RT1 A decision is stored only over the very revision that it was made from; over another one it is made again.
 * RT2 A decision that leaves the record as it is writes nothing.
 * RT3 Within this process decisions on one record are made one after the other.
 * RT4 The memory of a kind hears of a record only after the store has it.
 * RT5 The word that a change rests on is stored with the change, or neither is.
 */
import type { CommitOrder } from "@holdfast/model/call-order";
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type CountedChange, type CountWith, noTerms, type QuotaTerms, uncounted } from "../domain/quota/quota.ts";
import type { AuditedAs } from "../domain/repair/audit.ts";
import type { AggregateRef, Commit, IndexEntry, RecordWrite, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { auditOf } from "./audit-records.ts";
import { createCommitRounds } from "./commit-rounds.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { pagesOf } from "./pages-of.ts";
import type { RecordReader } from "./shape/record-reader.ts";

export interface Versioned<R> {
  readonly record: R;
  readonly rev: number;
}

export interface RecordKind<N, R> {
  refOf(name: N): AggregateRef;
  readonly read: RecordReader<R>;
  /** The text of the record and its places in the store. */
  encode(record: R, now: number): Omit<RecordWrite, "ref" | "expectedRev">;
  /** After so many conflicts that the decision is given up. */
  busy(name: N): HoldfastError;
  readonly memory?: RecordMemory<N, R> | undefined;
  /** What a change of the record changes of what its namespace has; nothing when absent. */
  readonly counts?: ((before: R | undefined, after: R | null) => CountedChange | undefined) | undefined;
}

/** What a process keeps in mind of the records of a kind. */
export interface RecordMemory<N, R> {
  /** What the first round of a decision is made from, in place of a read. */
  recall?(name: N): Versioned<R> | undefined;
  /** RT4: undefined = there is none. `own`: this process wrote it. */
  saw(name: N, found: Versioned<R> | undefined, own: boolean): void;
}

/** What a decision wants stored. */
export interface Draft<R>
  extends Partial<Pick<Commit, "opId" | "alone" | "expects" | "raisesFormat" | "requiresVetted">> {
  /** null removes the record. */
  readonly record: R | null;
  /** What watchers are told of it. */
  readonly note?: string | undefined;
  /** The word that it rests on. */
  readonly audit?: AuditedAs | undefined;
  readonly beside?: readonly RecordWrite[];
}

/** undefined leaves the record as it is. A decision may throw, and is asked again when others were faster. */
export type DecideRecord<R> = (
  before: Versioned<R> | undefined,
) => Draft<R> | undefined | Promise<Draft<R> | undefined>;

export interface RecordResult<R> {
  /** After the decision; undefined when there is none (any more). */
  readonly now: Versioned<R> | undefined;
  readonly changed: boolean;
  /** Of the commit that changed it. */
  readonly order?: CommitOrder;
  /** Another record carries an entry that the draft has to be alone with: nothing was written. */
  readonly crowded?: true;
}

/** Of a decision that never leaves a name without a record. */
export const recordAfter = <R>({ now }: RecordResult<R>): Versioned<R> => {
  if (now === undefined) throw new Error("the decision left no record");
  return now;
};

export interface RecordPage {
  readonly after?: string | undefined;
  readonly limit: number;
  /** RECORD_DAMAGED in place of an answer without the damaged records. */
  readonly whole?: true | undefined;
}

export interface RecordTable<N, R> {
  get(name: N): Promise<Versioned<R> | undefined>;
  /** As the store has it now; the memory hears of it. */
  look(name: N): Promise<Versioned<R> | undefined>;
  /** Without what is damaged, unless `whole` asks for all. */
  list(
    entry: IndexEntry,
    page: RecordPage,
  ): Promise<{ readonly records: readonly Versioned<R>[]; readonly next: string | undefined }>;
  /** The same, page by page. */
  pages(entry: IndexEntry): AsyncGenerator<readonly Versioned<R>[]>;
  change(name: N, decide: DecideRecord<R>): Promise<RecordResult<R>>;
  /** The same; the first round takes the record for absent without a read. */
  insert(name: N, decide: DecideRecord<R>): Promise<RecordResult<R>>;
}

export interface RecordTableDeps {
  readonly store: Pick<Store, "get" | "list" | "commit">;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly ids: Ids;
  readonly signal: AbortSignal;
  readonly damages?: DamagedRecords | undefined;
  /** Of the quotas of namespaces; nothing is counted without it. */
  readonly counted?: CountWith | undefined;
}

const pageSize = 500;

export const createRecordTable = <N, R>(deps: RecordTableDeps, kind: RecordKind<N, R>): RecordTable<N, R> => {
  const { store, clock, ids, signal, damages = createDamagedRecords(), counted = uncounted } = deps;
  const { refOf, memory } = kind;
  const rounds = createCommitRounds(deps);
  const lanes = createKeyedLanes();

  const versioned = (stored: StoredRecord): Versioned<R> => ({ record: kind.read(stored), rev: stored.rev });

  const get = async (name: N): Promise<Versioned<R> | undefined> => {
    const stored = await store.get(refOf(name));
    return stored && damages.read(stored, versioned);
  };

  const look = async (name: N): Promise<Versioned<R> | undefined> => {
    const found = await get(name);
    memory?.saw(name, found, false);
    return found;
  };

  const list: RecordTable<N, R>["list"] = async (entry, { after, limit, whole }) => {
    const page = await store.list({ ...entry, limit, after });
    return { records: damages.readEach(page.records, versioned, whole), next: page.next };
  };

  const commitOf = (name: N, rev: number, draft: Draft<R>, quota: QuotaTerms): Commit => {
    const { record, note, audit, beside = [], opId = ids.uuid(), expects = [], ...terms } = draft;
    const ref = refOf(name);
    const now = clock.now();
    const places = record === null ? { body: null, indexes: [], due: [] } : kind.encode(record, now);
    const audited = auditOf(audit, { now, revisionBefore: rev }, ref, rev + 1); // RT5
    const events = note === undefined ? [] : [{ type: ref.kind, ref, body: note }];
    return {
      opId,
      requiresVetted: false,
      ...terms,
      expects: [...expects, ...quota.expects],
      writes: [{ ...places, ref, expectedRev: rev }, ...beside, ...audited.writes, ...quota.writes], // RT1
      events: [...events, ...audited.events],
    };
  };

  const inLane = <T>(name: N, fn: () => Promise<T>): Promise<T> => lanes.run(refOf(name).key, signal, fn); // RT3

  const decideOnce = async (
    name: N,
    decide: DecideRecord<R>,
    before: Versioned<R> | undefined,
  ): Promise<RecordResult<R> | undefined> => {
    const draft = await decide(before);
    if (draft === undefined) return { now: before, changed: false }; // RT2
    const rev = before?.rev ?? 0;
    const counts = kind.counts?.(before?.record, draft.record);
    const commit = (quota: QuotaTerms) => rounds.commit(commitOf(name, rev, draft, quota));
    const result = await (counts === undefined ? commit(noTerms) : counted([counts], commit));
    if (result?.ok !== true) return result?.crowded ? { now: before, changed: false, crowded: true } : undefined;
    const now = draft.record === null ? undefined : { record: draft.record, rev: result.revs[0] ?? rev + 1 };
    memory?.saw(name, now, true); // RT4
    return { now, changed: true, order: result.order };
  };

  type First = () => Versioned<R> | undefined | Promise<Versioned<R> | undefined>;

  const decided = (name: N, decide: DecideRecord<R>, first: First): Promise<RecordResult<R>> =>
    inLane(name, () =>
      rounds.run(
        async (n) => decideOnce(name, decide, await (n === 0 ? first() : look(name))),
        () => kind.busy(name),
      ),
    );

  return {
    get,
    look: (name) => inLane(name, () => look(name)),
    list,
    async *pages(entry) {
      for await (const { records } of pagesOf((after) => list(entry, { after, limit: pageSize }))) yield records;
    },
    change: (name, decide) => decided(name, decide, () => memory?.recall?.(name) ?? look(name)),
    insert: (name, decide) => decided(name, decide, () => undefined),
  };
};
