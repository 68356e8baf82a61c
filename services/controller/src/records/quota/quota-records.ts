/**
 * Quotas of namespaces, and the counting of all that they are about.
 *
 * QR1 What is counted changes only in a commit that carries the quota's record at the revision that was judged, or that it is absent.
 * So of several controllers that make something at once all but one judge again.
 * QR2 A quota that was set, changed or imported has no number of what is used. The first that needs the number reads the records of the
 * namespace and stores it over that very revision. Nothing that counts is stored meanwhile (QR1), so that the number fits.
 * QR3 What is given back is given back by the commit that removes the record.
 */
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import {
  type Added,
  addedBy,
  type CountWith,
  excessOf,
  noTerms,
  noUsage,
  plus,
  type QuotaRecord,
  type QuotaTerms,
  type Usage,
  usageOfVolume,
} from "../../domain/quota/quota.ts";
import type { AuditedAs } from "../../domain/repair/audit.ts";
import { formatWithQuotas } from "../../domain/store-format.ts";
import type { AggregateRef, IndexEntry } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { changedAllTheTime } from "../commit-rounds.ts";
import { pagesOf } from "../pages-of.ts";
import { createRecordTable, type RecordPage, type RecordTableDeps, type Versioned } from "../record-table.ts";
import { recordReader } from "../shape/record-reader.ts";
import type { CutIndex } from "../snapshot-codec.ts";
import { decodeVolume, type VolumeIndex } from "../volume/volume-codec.ts";
import { quotaExceeded, sizeMissing } from "./quota-errors.ts";
import { quotaShape } from "./quota-shape.ts";

export type VersionedQuota = Versioned<QuotaRecord>;

export interface CountedQuota extends VersionedQuota {
  readonly used: Usage;
}

export interface QuotaRecords {
  readonly counted: CountWith;
  /** Counted, if it was not yet. */
  get(namespace: string): Promise<CountedQuota | undefined>;
  list(page: RecordPage): Promise<{ readonly quotas: readonly CountedQuota[]; readonly next: string | undefined }>;
  /** undefined leaves it as it is, null removes it. `audit` is stored with it. */
  change(
    namespace: string,
    decide: (before: VersionedQuota | undefined) => QuotaRecord | null | undefined,
    audit: AuditedAs,
  ): Promise<boolean>;
}

export interface QuotaRecordsDeps extends RecordTableDeps {
  readonly store: Pick<Store, "get" | "list" | "count" | "commit" | "format">;
}

const all: IndexEntry = { index: "quota-all", value: "all" };
const volumesOf = (namespace: string): IndexEntry => ({
  index: "volume-namespace" satisfies VolumeIndex,
  value: namespace,
});
const snapshotsOf = (namespace: string): IndexEntry => ({
  index: "snapshot-namespace" satisfies CutIndex,
  value: namespace,
});
const pageSize = 500;

const refOf = (namespace: string): AggregateRef => ({ kind: "quota", key: namespace });

export const readQuota = recordReader<QuotaRecord>({ shape: quotaShape, keyOf: ({ namespace }) => namespace });

const encode = (record: QuotaRecord) => ({ body: JSON.stringify(record), indexes: [all], due: [] });

export const createQuotaRecords = (deps: QuotaRecordsDeps): QuotaRecords => {
  const { store, clock, signal } = deps;
  const lanes = createKeyedLanes();
  const table = createRecordTable<string, QuotaRecord>(deps, {
    refOf,
    read: readQuota,
    encode,
    busy: (namespace) => changedAllTheTime(`the quota of namespace ${namespace}`, { namespace }),
  });

  const usageOf = async (namespace: string): Promise<Usage> => {
    let used = noUsage;
    const entry = volumesOf(namespace);
    const page = (after: string | undefined) => store.list({ ...entry, limit: pageSize, after });
    for await (const { records } of pagesOf(page))
      for (const stored of records) used = plus(used, usageOfVolume(decodeVolume(stored)));
    const [snapshots = 0] = await store.count([snapshotsOf(namespace)]);
    return { ...used, snapshots };
  };

  /** QR2 */
  const countedOf = async (namespace: string, found: VersionedQuota): Promise<CountedQuota | undefined> => {
    if (found.record.used !== undefined) return { ...found, used: found.record.used };
    const used = await usageOf(namespace);
    const { now } = await table.change(namespace, (before) =>
      before?.rev === found.rev ? { record: { ...before.record, used } } : undefined,
    );
    return now === undefined ? undefined : await countedOf(namespace, now);
  };

  const get = async (namespace: string): Promise<CountedQuota | undefined> => {
    const found = await table.get(namespace);
    return found && (await countedOf(namespace, found));
  };

  const absent = (namespace: string, { writes, expects }: QuotaTerms): QuotaTerms => ({
    writes,
    expects: [...expects, { ref: refOf(namespace), expectedRev: 0 }],
  });

  /** QR1, QR3. Within this process one after the other, so that only other controllers cause conflicts. */
  const within = async <T>(
    added: readonly (readonly [namespace: string, Added])[],
    terms: QuotaTerms,
    commit: (terms: QuotaTerms) => Promise<T>,
  ): Promise<T> => {
    const [first, ...rest] = added;
    if (first === undefined) return await commit(terms);
    const [namespace, by] = first;
    if ((await table.get(namespace)) === undefined) return await within(rest, absent(namespace, terms), commit);
    return await lanes.run(namespace, signal, async () => {
      const quota = await get(namespace);
      if (quota === undefined) return await within(rest, absent(namespace, terms), commit);
      const { record, rev, used } = quota;
      const excess = excessOf(record.limits, used, by);
      if (excess !== undefined) throw quotaExceeded(namespace, excess);
      if (by.sizeless && record.limits.bytes !== undefined) throw sizeMissing(namespace);
      const next = { ...record, used: plus(used, by.all) };
      const write = { ...encode(next), ref: refOf(namespace), expectedRev: rev };
      return await within(rest, { ...terms, writes: [...terms.writes, write] }, commit);
    });
  };

  return {
    async counted(changes, commit) {
      const added = addedBy(changes);
      if (added.size === 0 || store.format() < formatWithQuotas) return await commit(noTerms);
      return await within(
        [...added].sort(([a], [b]) => (a < b ? -1 : 1)),
        noTerms,
        commit,
      );
    },
    get,
    async list(page) {
      const { records, next } = await table.list(all, page);
      const quotas = await Promise.all(records.map((found) => countedOf(found.record.namespace, found)));
      return { quotas: quotas.filter((quota) => quota !== undefined), next };
    },
    async change(namespace, decide, audit) {
      const { changed } = await table.change(namespace, (before) => {
        const record = decide(before);
        if (record === undefined || (record === null && before === undefined)) return undefined;
        const change = record === null ? "removed" : before === undefined ? "added" : "changed";
        return { record, audit, note: JSON.stringify({ namespace, change, at: clock.now() }) };
      });
      return changed;
    },
  };
};
