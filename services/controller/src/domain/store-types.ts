/** What is kept, as the store sees it: opaque text under a key, compared by revision. The meaning is in the other files here. */
import type { CommitOrder } from "@holdfast/model/call-order";
import type { Vetting } from "@holdfast/model/vetting";

export const aggregateKinds = [
  "volume",
  "claim-set",
  "node",
  "attach-limit",
  "snapshot",
  "group",
  "plugin",
  "secret",
  "tombstone",
  "meta",
  "audit",
  "orphan",
  "quota",
  "grant",
  "node-token",
  "denial",
] as const;
export type AggregateKind = (typeof aggregateKinds)[number];

export interface AggregateRef {
  readonly kind: AggregateKind;
  /** Unique within the kind, for example `default/data`. */
  readonly key: string;
}

export interface StoredRecord {
  readonly ref: AggregateRef;
  /** Counts up by one at each write of this key, also over a removal, so an old revision never fits again. */
  readonly rev: number;
  readonly body: string;
  /** The store has something under the key and cannot tell revision and body apart: what is wrong. It is not absent. */
  readonly damage?: string;
}

/** An entry of an index: records that carry the same (index, value) are listed together, ordered by key. An index holds one kind. */
export interface IndexEntry {
  readonly index: string;
  readonly value: string;
}

export interface DueEntry {
  readonly queue: string;
  readonly ref: AggregateRef;
  /** Wall-clock milliseconds; only says when to look again, never who owns what. */
  readonly at: number;
}

export interface RecordWrite {
  readonly ref: AggregateRef;
  /** The revision that was read; 0 = the record must not exist. */
  readonly expectedRev: number;
  /** null removes the record. */
  readonly body: string | null;
  /** The whole set of index entries of this record after the write; ignored when the body is null. */
  readonly indexes: readonly IndexEntry[];
  /** The record's place in the due queues after the write, one a queue; queues not named here hold it no more. */
  readonly due: readonly { readonly queue: string; readonly at: number }[];
  /** Forget the record after this long (tombstones only). */
  readonly ttlMs?: number;
}

/** A record with all its places, as a backup keeps it. */
export interface PlacedRecord {
  readonly ref: AggregateRef;
  readonly body: string;
  readonly indexes: readonly IndexEntry[];
  readonly due: readonly { readonly queue: string; readonly at: number }[];
  /** What is left of a life that ends. */
  readonly ttlMs?: number;
  /** As of a StoredRecord. */
  readonly damage?: string;
}

export interface EventWrite {
  readonly type: string;
  readonly ref: AggregateRef;
  readonly body: string;
}

/** One step: every write or none. */
export interface Commit {
  /** The same opId again, within minutes, answers with the first result and writes nothing. */
  readonly opId: string;
  readonly writes: readonly RecordWrite[];
  readonly events: readonly EventWrite[];
  /** Grants and offers set this: refused (STORE_UNVETTED) unless the store process is the one that was vetted. */
  readonly requiresVetted: boolean;
  /**
   * Refused if any record that is not written here carries this entry, or one of these. Compared after the revisions. What has ended
   * and was not tidied away yet may count.
   */
  readonly alone?: IndexEntry | readonly IndexEntry[];
  /**
   * How many records may carry these entries, all of them together; no record carries two of one bound. Compared only with entries
   * that this commit adds to more records than it takes them from; what has ended and was not tidied away yet may count.
   */
  readonly atMost?: readonly { readonly entries: readonly IndexEntry[]; readonly count: number }[];
  /** The format of the store from this commit on; one that it has, or is beyond, changes nothing. */
  readonly raisesFormat?: number;
  /** Records that are only compared: refused, as by a conflict, unless each has this very revision. Never one that is written. */
  readonly expects?: readonly ExpectedRecord[];
}

export type ExpectedRecord = Pick<RecordWrite, "ref" | "expectedRev">;

export type CommitResult =
  | {
      readonly ok: true;
      readonly revs: readonly number[];
      readonly token: string;
      readonly order: CommitOrder;
      /** The answer to a repeat: others may have written since the commit. */
      readonly repeated?: true;
    }
  | {
      readonly ok: false;
      readonly conflicts: readonly { readonly ref: AggregateRef; readonly rev: number }[];
      /** All revisions fit, but others carry the entry of `alone`. */
      readonly crowded?: true;
      /** All revisions fit, but of these entries of `atMost` there would be too many, of one bound all are named. */
      readonly full?: readonly IndexEntry[];
    };

export interface StoredEvent {
  /** Position in the stream; a watch from it goes on with the next event. */
  readonly token: string;
  readonly type: string;
  readonly ref: AggregateRef;
  readonly body: string;
  /** Of a commit whose answer this very client of the store got, in this life. It may be missing on those as well, after a read. */
  readonly own?: true;
}

export interface ListQuery {
  readonly index: string;
  readonly value: string;
  /** The key after which to go on; absent = from the start. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface ListPage {
  readonly records: readonly StoredRecord[];
  /** Present when there may be more. */
  readonly next?: string;
}

/** The lineage of a store: what must agree before anything is granted from it. */
export interface StoreIdentity {
  readonly clusterUid: string;
  /** Of its records; see store-format.ts. */
  readonly format: number;
  /** Of its generation; see vetting.ts. */
  readonly vetting: Vetting;
  /** The generation was begun for this very process, in this history of its data: what it is vetted under, or was. */
  readonly begun: boolean;
  /** Names this very process (Redis run_id) or file; changes when writes may have been lost. */
  readonly runId: string;
  readonly vettedRunId: string;
  /** Uid of the newest vetting that ended; empty: none is known. */
  readonly lastVetted: string;
  /** Since that vetting the store has lost nothing that was acknowledged to this very process. Of others it says nothing. */
  readonly keptAll: boolean;
}

/** The entries that a commit has to be alone with. */
export const aloneEntries = ({ alone = [] }: Pick<Commit, "alone">): readonly IndexEntry[] =>
  "index" in alone ? [alone] : alone;
