/**
 * The grants of schedulers. There are few, and every call of a scheduler asks for its own: all of them are kept in memory, and the store is
 * read when somebody else wrote.
 *
 * AG1 A grant is stored before anybody here heeds it. AG2 A record that cannot be read grants nothing. AG3 It may
 * ask for tickets in any namespace: whoever asks is told of it.
 */

import { filled, listOf, optional, shaped, time } from "@holdfast/model/record-shape";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AccessGrantRecord } from "../../domain/access/access-grant.ts";
import type { AuditedAs } from "../../domain/repair/audit.ts";
import type { AggregateRef, IndexEntry } from "../../domain/store-types.ts";
import { changedAllTheTime } from "../commit-rounds.ts";
import { createRecordTable, type RecordPage, type RecordTableDeps, type Versioned } from "../record-table.ts";
import { recordReader } from "../shape/record-reader.ts";

export interface AccessGrants {
  /** Reads every grant: before anybody is served, and whenever changes may have been missed. */
  load(): Promise<void>;
  /** From memory. */
  of(scheduler: string): AccessGrantRecord | undefined;
  /** Whether there is any grant, one that cannot be read included. */
  any(): boolean;
  /** From memory: those of every grant that has the namespace, and the scheduler of a grant that cannot be read, if there is one. */
  ticketKeys(namespace: string): { readonly keys: readonly string[]; readonly unread: string | undefined };
  get(scheduler: string): Promise<AccessGrantRecord | undefined>;
  list(page: RecordPage): Promise<{ readonly grants: readonly AccessGrantRecord[]; readonly next: string | undefined }>;
  /** undefined leaves it as it is, null removes it. `audit` is stored with it. */
  change(
    scheduler: string,
    decide: (before: AccessGrantRecord | undefined) => AccessGrantRecord | null | undefined,
    audit: AuditedAs,
  ): Promise<boolean>;
  /** Another controller wrote it. */
  learnOf(scheduler: string): Promise<void>;
}

const all: IndexEntry = { index: "grant-all", value: "all" };
const pageSize = 500;

const refOf = (scheduler: string): AggregateRef => ({ kind: "grant", key: scheduler });

export const readAccessGrant = recordReader<AccessGrantRecord>({
  shape: shaped({
    scheduler: filled,
    namespaces: listOf(filled),
    plugins: listOf(filled),
    secretRoots: listOf(filled),
    ticketKeys: optional(listOf(filled)),
    createdAt: time,
    updatedAt: time,
  }),
  keyOf: ({ scheduler }) => scheduler,
});

export const createAccessGrants = (deps: RecordTableDeps): AccessGrants => {
  const { store, clock } = deps;
  const known = new Map<string, Versioned<AccessGrantRecord> | "unread">();

  const table = createRecordTable<string, AccessGrantRecord>(deps, {
    refOf,
    read: readAccessGrant,
    encode: (record) => ({ body: JSON.stringify(record), indexes: [all], due: [] }),
    busy: (scheduler) => changedAllTheTime(`the grant of scheduler ${scheduler}`, { scheduler }),
    memory: {
      // AG1
      saw(scheduler, found) {
        if (found === undefined) known.delete(scheduler);
        else known.set(scheduler, found);
      },
    },
  });

  const learnOf = async (scheduler: string): Promise<void> => {
    try {
      await table.look(scheduler);
    } catch (error) {
      known.set(scheduler, "unread"); // AG2
      throw error;
    }
  };

  /** A damaged record keeps nobody else's from being read. */
  const learnIfSound = (scheduler: string): Promise<void> =>
    learnOf(scheduler).catch((error: unknown) => {
      if (!isHoldfastError(error) || error.reason !== "RECORD_DAMAGED") throw error;
    });

  return {
    async load() {
      const gone = new Set(known.keys());
      let after: string | undefined;
      do {
        const page = await store.list({ ...all, limit: pageSize, after });
        for (const { ref } of page.records) {
          gone.delete(ref.key);
          await learnIfSound(ref.key);
        }
        after = page.next;
      } while (after !== undefined);
      for (const scheduler of gone) await learnIfSound(scheduler);
    },
    of(scheduler) {
      const found = known.get(scheduler);
      return found === undefined || found === "unread" ? undefined : found.record;
    },
    any: () => known.size > 0,
    ticketKeys(namespace) {
      const keys: string[] = [];
      let unread: string | undefined;
      for (const [scheduler, found] of known) {
        if (found === "unread")
          unread = scheduler; // AG3
        else if (found.record.namespaces.includes(namespace)) keys.push(...(found.record.ticketKeys ?? []));
      }
      return { keys, unread };
    },
    get: async (scheduler) => (await table.get(scheduler))?.record,
    async list(page) {
      const { records, next } = await table.list(all, page);
      return { grants: records.map(({ record }) => record), next };
    },
    async change(scheduler, decide, audit) {
      const { changed } = await table.change(scheduler, (before) => {
        const record = decide(before?.record);
        if (record === undefined || (record === null && before === undefined)) return undefined;
        const change = record === null ? "removed" : before === undefined ? "added" : "changed";
        return { record, audit, note: JSON.stringify({ scheduler, change, at: clock.now() }) };
      });
      return changed;
    },
    learnOf,
  };
};
