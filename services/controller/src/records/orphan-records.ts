/** What scans have found, with its age. One record an orphan; what is seen again is written again only now and then. */
import { createHash } from "node:crypto";
import { type Orphan, type OrphanFinding, orphanIdentity } from "../domain/repair/orphan.ts";
import type { AggregateRef, IndexEntry } from "../domain/store-types.ts";
import { changedAllTheTime } from "./commit-rounds.ts";
import { createRecordTable, type RecordTableDeps } from "./record-table.ts";
import { recordReader } from "./shape/record-reader.ts";
import { orphanShape } from "./shape/record-shapes.ts";

export interface OrphanRecords {
  get(id: string): Promise<Orphan | undefined>;
  /** Found now; its first time is kept. */
  found(finding: OrphanFinding): Promise<Orphan>;
  /** All of one plugin ("" = mounts), page by page. */
  of(plugin: string): AsyncGenerator<Orphan>;
  /** It is there no more. */
  gone(id: string): Promise<void>;
}

/** How stale `seenAt` may be in the store. */
const refreshMs = 3_600_000;
/** Findings that no scan sees again, because their plugin is gone: they do not stay for ever. */
const ttlMs = 90 * 24 * 3_600_000;

const refOf = (id: string): AggregateRef => ({ kind: "orphan", key: id });
const byPlugin = (plugin: string): IndexEntry => ({ index: "orphan-plugin", value: plugin === "" ? "-" : plugin });

export const orphanIdOf = (finding: OrphanFinding): string =>
  createHash("sha256").update(orphanIdentity(finding)).digest("hex").slice(0, 24);

export const readOrphan = recordReader<Orphan>({ shape: orphanShape, keyOf: ({ id }) => id });

export const createOrphanRecords = (deps: RecordTableDeps): OrphanRecords => {
  const table = createRecordTable<string, Orphan>(deps, {
    refOf,
    read: readOrphan,
    encode: (orphan) => ({ body: JSON.stringify(orphan), indexes: [byPlugin(orphan.plugin)], due: [], ttlMs }),
    busy: (id) => changedAllTheTime(`orphan ${id}`, { orphan: id }),
  });

  return {
    get: async (id) => (await table.get(id))?.record,

    async found(finding) {
      const now = deps.clock.now();
      let orphan: Orphan = { ...finding, id: orphanIdOf(finding), foundAt: now, seenAt: now };
      const { kind, plugin } = finding;
      await table.change(orphan.id, (stored) => {
        if (stored === undefined) return { record: orphan, note: JSON.stringify({ at: now, kind, plugin }) };
        const { foundAt, seenAt, detail } = stored.record;
        orphan = { ...orphan, foundAt };
        return now - seenAt < refreshMs && detail === finding.detail ? undefined : { record: orphan };
      });
      return orphan;
    },

    async *of(plugin) {
      for await (const page of table.pages(byPlugin(plugin))) for (const { record } of page) yield record;
    },

    async gone(id) {
      await table.change(id, (found) => found && { record: null });
    },
  };
};
