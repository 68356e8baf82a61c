/** The audit in the store: written once, never changed, never removed, read newest first. */
import type { AuditEntry, AuditedAs, AuditRecord, AuditSubject } from "../domain/repair/audit.ts";
import type { AggregateRef, EventWrite, IndexEntry, RecordWrite } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { recordReader } from "./shape/record-reader.ts";
import { auditShape } from "./shape/record-shapes.ts";

type AuditIndex = "audit-all" | "audit-namespace" | "audit-volume" | "audit-request";

export interface AuditFilter {
  readonly namespace: string;
  /** Together with the namespace. */
  readonly volume: string;
  readonly verb: string;
}

export interface AuditRecords {
  /** Keys in the order of their time, the newest first. */
  newId(now: number): string;
  get(id: string): Promise<AuditRecord | undefined>;
  /** What was done for this request before. */
  ofRequest(requestId: string): Promise<readonly AuditRecord[]>;
  list(
    filter: AuditFilter,
    page: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<{ readonly records: readonly AuditRecord[]; readonly next: string | undefined }>;
  /** For what changes no volume. The same id again is stored once. */
  write(id: string, entry: AuditEntry, now: number): Promise<void>;
}

const refOf = (id: string): AggregateRef => ({ kind: "audit", key: id });

/** The latest time that still sorts: 2^48 ms, the year 10889. */
const farthest = 2 ** 48;
const digits = 10;

export const auditIdAt = (now: number, uuid: string): string =>
  `${(farthest - now).toString(36).padStart(digits, "0")}-${uuid}`;

const entryOf = (index: AuditIndex, value: string): IndexEntry => ({ index, value });

const indexesOf = ({ requestId, subject }: AuditEntry): readonly IndexEntry[] => [
  entryOf("audit-all", "all"),
  ...(subject.namespace === undefined ? [] : [entryOf("audit-namespace", subject.namespace)]),
  ...(subject.namespace === undefined || subject.volume === undefined
    ? []
    : [entryOf("audit-volume", `${subject.namespace}/${subject.volume}`)]),
  ...(requestId === "" ? [] : [entryOf("audit-request", requestId)]),
];

const encodeAudit = (record: AuditRecord): RecordWrite => ({
  ref: refOf(record.id),
  expectedRev: 0,
  body: JSON.stringify(record),
  indexes: indexesOf(record),
  due: [],
});

/** What watchers are told of it. */
const auditNote = ({ id, at, verb, who, reason, subject }: AuditRecord): Readonly<Record<string, string | number>> => ({
  audit: id,
  at,
  verb,
  who,
  reason,
  ...namedIn(subject),
});

/** What the commit of a change carries of the word that it rests on; `ref` and `rev` are of the record that changed. */
export const auditOf = (
  audit: AuditedAs | undefined,
  at: { readonly now: number; readonly revisionBefore: number },
  ref: AggregateRef,
  rev: number,
): { readonly writes: readonly RecordWrite[]; readonly events: readonly EventWrite[] } => {
  if (audit === undefined) return { writes: [], events: [] };
  const record: AuditRecord = { ...audit.entry, id: audit.id, at: at.now, revisionBefore: at.revisionBefore };
  const body = JSON.stringify({ ...auditNote(record), rev });
  return { writes: [encodeAudit(record)], events: [{ type: "audit", ref, body }] };
};

const namedIn = (subject: AuditSubject): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(subject).filter(([, value]) => typeof value === "string" && value !== ""));

export const readAudit = recordReader<AuditRecord>({ shape: auditShape, keyOf: ({ id }) => id });

const indexFor = ({ namespace, volume }: AuditFilter): IndexEntry => {
  if (namespace === "") return entryOf("audit-all", "all");
  return volume === "" ? entryOf("audit-namespace", namespace) : entryOf("audit-volume", `${namespace}/${volume}`);
};

const maxRepeats = 20;

export interface AuditRecordsDeps {
  readonly store: Store;
  readonly ids: Pick<Ids, "uuid">;
  readonly damages?: DamagedRecords;
  /** Told of each id as it is made. */
  readonly noted?: (id: string) => void;
}

export const createAuditRecords = ({
  store,
  ids,
  damages = createDamagedRecords(),
  noted,
}: AuditRecordsDeps): AuditRecords => ({
  newId(now) {
    const id = auditIdAt(now, ids.uuid());
    noted?.(id);
    return id;
  },

  async get(id) {
    const found = await store.get(refOf(id));
    return found === undefined ? undefined : damages.read(found, readAudit);
  },

  async ofRequest(requestId) {
    if (requestId === "") return [];
    const { records } = await store.list({ ...entryOf("audit-request", requestId), limit: maxRepeats });
    // A repeat is known by these: one that cannot be read is no "never done".
    return damages.readEach(records, readAudit, true);
  },

  async list(filter, { after, limit }) {
    const page = await store.list({ ...indexFor(filter), limit, after });
    const all = damages.readEach(page.records, readAudit);
    return { records: all.filter(({ verb }) => filter.verb === "" || verb === filter.verb), next: page.next };
  },

  async write(id, entry, now) {
    const record: AuditRecord = { ...entry, id, at: now, revisionBefore: 0 };
    const events = [{ type: "audit", ref: refOf(id), body: JSON.stringify(auditNote(record)) }];
    // A conflict is this very record: its id was made for this call.
    await store.commit({ opId: ids.uuid(), writes: [encodeAudit(record)], events, requiresVetted: false });
  },
});
