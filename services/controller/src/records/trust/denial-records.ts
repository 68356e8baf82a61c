/**
 * Certificates that no call is taken with. They are few, and every call asks: all of them are kept in memory, and the store is read when
 * another controller wrote.
 *
 * DN1 A denial is stored before this process answers that there is one, and no call that begins after it is taken.
 * DN2 A denial that cannot be read denies all that it may be about: it is damaged, and not absent.
 */
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AuditedAs } from "../../domain/repair/audit.ts";
import type { AggregateRef, IndexEntry } from "../../domain/store-types.ts";
import { type Denial, keptMs } from "../../domain/trust/denial.ts";
import { changedAllTheTime } from "../commit-rounds.ts";
import { createDamagedRecords } from "../damaged-records.ts";
import { createRecordTable, type RecordPage, type RecordTableDeps } from "../record-table.ts";
import { recordReader } from "../shape/record-reader.ts";
import { denialShape } from "./trust-shapes.ts";

export interface DenialRecords {
  /** Reads all of them: at the start, and when changes may have been missed. */
  load(): Promise<void>;
  /** Another controller wrote it. */
  learnOf(subject: string): Promise<void>;
  of(subject: string): Pick<Denial, "at"> | undefined;
  /** Why the denial of the subject cannot be read, if it was found so. */
  damage(subject: string): HoldfastError | undefined;
  /** Stored unless one is there that `holds`; answers the one that is there then. */
  add(denial: Denial, audit: AuditedAs, holds: (before: Denial) => boolean): Promise<Denial>;
  list(page: RecordPage): Promise<{ readonly denials: readonly Denial[]; readonly next: string | undefined }>;
  /** Called after another subject is denied. */
  onDenied(listener: () => void): () => void;
}

const index: IndexEntry = { index: "denial-all", value: "all" };

const refOf = (subject: string): AggregateRef => ({ kind: "denial", key: subject });

export const readDenial = recordReader<Denial>({ shape: denialShape, keyOf: ({ subject }) => subject });

export const createDenialRecords = (deps: RecordTableDeps): DenialRecords => {
  const { now } = deps.clock;
  const { damages = createDamagedRecords() } = deps;
  const known = new Map<string, Denial>();
  const denied = createEmitter();

  const saw = (subject: string, denial: Denial | undefined): void => {
    const before = known.get(subject);
    if (denial === undefined) known.delete(subject);
    else known.set(subject, denial);
    if (denial !== undefined && denial.at !== before?.at) denied.tell();
  };

  const table = createRecordTable<string, Denial>(
    { ...deps, damages },
    {
      refOf,
      read: readDenial,
      encode: (denial, at) => ({
        body: JSON.stringify(denial),
        indexes: [index],
        due: [],
        ttlMs: Math.max(1, denial.endsAt - at) + keptMs,
      }),
      busy: (subject) => changedAllTheTime(`the denial of ${subject}`),
      memory: { saw: (subject, found) => saw(subject, found?.record) },
    },
  );

  return {
    async load() {
      const found = new Set<string>();
      for await (const page of table.pages(index))
        for (const { record } of page) {
          found.add(record.subject);
          saw(record.subject, record);
        }
      // An entry that the store has no more has ended there; one that was made meanwhile is read, and not guessed at.
      for (const subject of [...known.keys()]) if (!found.has(subject)) await table.look(subject);
    },
    async learnOf(subject) {
      await table.look(subject);
    },
    of(subject) {
      const denial = known.get(subject);
      if (denial !== undefined && denial.endsAt + keptMs > now()) return denial;
      known.delete(subject);
      return damages.of(refOf(subject)) === undefined ? undefined : { at: Number.MAX_SAFE_INTEGER }; // DN2
    },
    damage: (subject) => damages.of(refOf(subject)),
    async add(denial, audit, holds) {
      const { subject } = denial;
      const { now: after } = await table.change(subject, (before) =>
        before !== undefined && holds(before.record)
          ? undefined
          : { record: denial, audit, note: JSON.stringify({ subject, at: denial.at, change: "added" }) },
      );
      return after?.record ?? denial;
    },
    async list(page) {
      const { records, next } = await table.list(index, page);
      return { denials: records.map(({ record }) => record), next };
    },
    onDenied: denied.on,
  };
};
