/** The controllers that share the calls of plugins: one record, so that one read shows all of them. */
import { createMetaTable, metaRef } from "./meta-table.ts";
import type { RecordTableDeps } from "./record-table.ts";
import { sharersShape } from "./shape/controller-shapes.ts";

export interface StoredSharer {
  /** Controller and life. */
  readonly issuer: string;
  /** Another one whenever it tells. */
  readonly beat: number;
  /** The plugins that it can call, with the calls that it was asked for of late. */
  readonly plugins: Readonly<Record<string, number>>;
}

export interface SharerRecords {
  /** Puts the life in the place of every other life of its controller; answers all that stand there then. */
  tell(sharer: StoredSharer, forgotten: (other: StoredSharer) => boolean): Promise<readonly StoredSharer[]>;
  /** Also when the signal of everything else is aborted. */
  remove(issuer: string): Promise<void>;
}

interface StoredSharers {
  readonly sharers: readonly StoredSharer[];
}

const ref = metaRef("sharers");

/** Of a controller and its life. */
export const controllerOf = (issuer: string): string => issuer.slice(0, issuer.lastIndexOf("/"));

export const createSharerRecords = (deps: RecordTableDeps): SharerRecords => {
  const what = "the record of the controllers that share calls";
  const table = createMetaTable<StoredSharers>(deps, { shape: sharersShape, what });
  const change = async (next: (before: readonly StoredSharer[]) => readonly StoredSharer[]) => {
    const { now } = await table.change(ref, (found) => ({ record: { sharers: next(found?.record.sharers ?? []) } }));
    return now?.record.sharers ?? [];
  };
  return {
    tell: (sharer, forgotten) =>
      change((before) => [
        ...before.filter((other) => controllerOf(other.issuer) !== controllerOf(sharer.issuer) && !forgotten(other)),
        sharer,
      ]),
    remove: async (issuer) => void (await change((before) => before.filter((other) => other.issuer !== issuer))),
  };
};
