/** What scans have found, with its age. One record an orphan; what is seen again is written again only now and then. */
import { createHash } from "node:crypto";
import type { Clock } from "@holdfast/shared/async/clock";
import { type Orphan, type OrphanFinding, orphanIdentity } from "../domain/orphan.ts";
import type { AggregateRef, IndexEntry, RecordWrite } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { recordReader } from "./record-reader.ts";
import { orphanShape } from "./record-shapes.ts";

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
const pageSize = 200;

const refOf = (id: string): AggregateRef => ({ kind: "orphan", key: id });
const byPlugin = (plugin: string): IndexEntry => ({ index: "orphan-plugin", value: plugin === "" ? "-" : plugin });

export const orphanIdOf = (finding: OrphanFinding): string =>
  createHash("sha256").update(orphanIdentity(finding)).digest("hex").slice(0, 24);

export const readOrphan = recordReader<Orphan>({ shape: orphanShape, keyOf: ({ id }) => id });

export const createOrphanRecords = ({
  store,
  clock,
  ids,
  damages = createDamagedRecords(),
}: {
  readonly store: Store;
  readonly clock: Pick<Clock, "now">;
  readonly ids: Pick<Ids, "uuid">;
  readonly damages?: DamagedRecords;
}): OrphanRecords => {
  const write = (orphan: Orphan, expectedRev: number): RecordWrite => ({
    ref: refOf(orphan.id),
    expectedRev,
    body: JSON.stringify(orphan),
    indexes: [byPlugin(orphan.plugin)],
    due: [],
    ttlMs,
  });

  return {
    async get(id) {
      const stored = await store.get(refOf(id));
      return stored === undefined ? undefined : damages.read(stored, readOrphan);
    },

    async found(finding) {
      const id = orphanIdOf(finding);
      const stored = await store.get(refOf(id));
      const before = stored === undefined ? undefined : damages.read(stored, readOrphan);
      const now = clock.now();
      const orphan: Orphan = { ...finding, id, foundAt: before?.foundAt ?? now, seenAt: now };
      if (before !== undefined && now - before.seenAt < refreshMs && before.detail === finding.detail) return orphan;
      // A conflict is another controller that saw the same: either record will do.
      await store.commit({
        opId: ids.uuid(),
        writes: [write(orphan, stored?.rev ?? 0)],
        events:
          before === undefined
            ? [
                {
                  type: "orphan",
                  ref: refOf(id),
                  body: JSON.stringify({ at: now, kind: finding.kind, plugin: finding.plugin }),
                },
              ]
            : [],
        requiresVetted: false,
      });
      return orphan;
    },

    async *of(plugin) {
      let after: string | undefined;
      do {
        const page = await store.list({
          ...byPlugin(plugin),
          limit: pageSize,
          ...(after === undefined ? {} : { after }),
        });
        yield* damages.readEach(page.records, readOrphan);
        after = page.next;
      } while (after !== undefined);
    },

    async gone(id) {
      const stored = await store.get(refOf(id));
      if (stored === undefined) return;
      const removal = { ref: refOf(id), expectedRev: stored.rev, body: null, indexes: [], due: [] };
      await store.commit({ opId: ids.uuid(), writes: [removal], events: [], requiresVetted: false });
    },
  };
};
