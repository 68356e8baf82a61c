/**
 * Puts an export into an empty store.
 *
 * M1 A store that holds another record than the file, or that has granted, is left as it is: all of it is compared before anything is
 * written. M2 An import that was cut goes on with the same file and with no other, and until it is over no controller starts over a part of
 * it. M3 Nothing is granted from what was imported before it was vetted: a
 * backup may have forgotten grants. M4 What the namespaces of quotas have is counted anew: a backup is no single moment.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Commit, PlacedRecord } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import type { ImportMark } from "../store/import-mark.ts";
import type { ReadExport } from "./export-file.ts";

export interface ImportSummary {
  /** Written now; the others stood there already, from the import that was cut. */
  readonly written: number;
  readonly records: number;
}

const batchSize = 50;

/** M4. What is damaged stays as it is, and is told of by whoever reads it. */
const asImported = (record: PlacedRecord): PlacedRecord => {
  if (record.ref.kind !== "quota") return record;
  try {
    return { ...record, body: JSON.stringify({ ...JSON.parse(record.body), used: undefined }) };
  } catch {
    return record;
  }
};

const notEmpty = ({ kind, key }: PlacedRecord["ref"]): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "STORE_NOT_EMPTY",
    message: `the store holds another ${kind} ${key} than the export: an export goes into an empty store only; nothing of it was changed. Use another cell or an empty Redis`,
    metadata: { kind, key },
  });

const commitOf = (digest: string, nth: number, records: readonly PlacedRecord[]): Commit => ({
  opId: `import-${digest}-${nth}`,
  writes: records.map(({ ref, body, indexes, due, ttlMs }) => ({
    ref,
    expectedRev: 0,
    body,
    indexes,
    due,
    ...(ttlMs === undefined ? {} : { ttlMs: Math.max(1, ttlMs) }),
  })),
  events: [],
  requiresVetted: false,
});

/** What was removed since the export would come back to life in it, beside grants that the file knows nothing of. */
const inUse = (clusterUid: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "STORE_NOT_EMPTY",
    message: `the store is that of installation ${clusterUid} itself, whose controllers have granted from it: an export goes into an empty store only; nothing of it was changed. Use another cell or an empty Redis`,
    metadata: { kind: "meta", key: "" },
  });

const otherFile = (): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "STORE_HALF_IMPORTED",
    message:
      "the store holds a part of another export, whose import was cut: nothing of it was changed. Repeat the import with that file, or use another cell or an empty Redis for this one",
  });

export interface ImportOptions {
  readonly store: Pick<Store, "identity" | "getMany" | "commit">;
  readonly mark: ImportMark;
  readonly file: ReadExport;
  readonly progress: (done: number, all: number) => void;
}

interface Batch {
  readonly at: number;
  readonly missing: readonly PlacedRecord[];
}

/** What of each part of the file is not there yet. M1 */
const compared = async ({ store, file: { records } }: ImportOptions): Promise<readonly Batch[]> => {
  const batches: Batch[] = [];
  for (let at = 0; at < records.length; at += batchSize) {
    const batch = records.slice(at, at + batchSize);
    const there = await store.getMany(batch.map(({ ref }) => ref));
    const missing = batch.filter((record, i) => {
      const found = there[i];
      if (found !== undefined && found.body !== record.body) throw notEmpty(record.ref);
      return found === undefined;
    });
    batches.push({ at, missing });
  }
  return batches;
};

export const importRecords = async (asked: ImportOptions): Promise<ImportSummary> => {
  const { store, mark, progress } = asked;
  const file = { ...asked.file, records: asked.file.records.map(asImported) };
  const { records, digest } = file;
  const { clusterUid, vettedRunId } = await store.identity();
  if (vettedRunId !== "") throw inUse(clusterUid); // M1, M3
  const begun = await mark.begun();
  if (begun !== undefined && begun !== "" && begun !== digest) throw otherFile(); // M2
  const batches = await compared({ ...asked, file });
  const owed = begun !== undefined || batches.some(({ missing }) => missing.length > 0);
  if (owed) await mark.begin(digest); // M2
  let written = 0;
  for (const { at, missing } of batches) {
    if (missing.length > 0) {
      const result = await store.commit(commitOf(digest, at, missing)); // M2
      if (!result.ok) throw notEmpty(result.conflicts[0]?.ref ?? missing[0]?.ref ?? { kind: "meta", key: "" });
      written += missing.length;
    }
    progress(Math.min(at + batchSize, records.length), records.length);
  }
  if (owed) await mark.finish(file.head.schema);
  return { written, records: records.length };
};
