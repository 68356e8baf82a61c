/** Stored secrets as records: ciphertext only, compared by revision like everything else in the store. */
import { type SecretName, type SecretRecord, secretKey, secretUser } from "../domain/secret/secret.ts";
import type { AggregateRef, ExpectedRecord, IndexEntry } from "../domain/store-types.ts";
import { changedAllTheTime } from "../records/commit-rounds.ts";
import {
  createRecordTable,
  type RecordResult,
  type RecordTable,
  type RecordTableDeps,
  type Versioned,
} from "../records/record-table.ts";
import { readSecret } from "../records/shape/record-readers.ts";

export type StoredSecret = Versioned<SecretRecord>;

/** What a decision about a secret wants stored. */
export interface SecretDraft {
  readonly record: SecretRecord | null;
  readonly note: SecretNote;
  /** Refused while a record carries this entry. */
  readonly unused?: IndexEntry;
}

export interface SecretRecords {
  get(name: SecretName): Promise<StoredSecret | undefined>;
  /** Of one namespace; of all when it is "". */
  list(namespace: string, page: Parameters<RecordTable<SecretName, SecretRecord>["list"]>[1]): Promise<SecretPage>;
  /** undefined leaves the secret as it is. */
  change(
    name: SecretName,
    decide: (found: StoredSecret | undefined) => SecretDraft | undefined | Promise<SecretDraft | undefined>,
  ): Promise<RecordResult<SecretRecord>>;
  /** Who refers to it: the keys of volumes, snapshots and groups, a page of them. */
  users(name: SecretName, version: number | undefined, limit: number, after?: string): Promise<readonly AggregateRef[]>;
  /** Nothing that refers to a secret is stored unless the secret is as it was read. */
  expected(stored: StoredSecret): ExpectedRecord;
}

export interface SecretPage {
  readonly records: readonly StoredSecret[];
  readonly next: string | undefined;
}

export interface SecretNote {
  readonly change: "PUT" | "DELETED" | "REWRAPPED";
  readonly version: number;
  readonly who: string;
  readonly why: string;
}

const all = { index: "secret-all", value: "all" } as const;
const ofNamespace = (namespace: string): IndexEntry => ({ index: "secret-namespace", value: namespace });
const refOf = (name: SecretName): AggregateRef => ({ kind: "secret", key: secretKey(name) });

export const createSecretRecords = (deps: RecordTableDeps): SecretRecords => {
  const table = createRecordTable<SecretName, SecretRecord>(deps, {
    refOf,
    read: readSecret,
    encode: (record) => ({ body: JSON.stringify(record), indexes: [all, ofNamespace(record.namespace)], due: [] }),
    busy: ({ namespace, name }) => changedAllTheTime(`secret ${namespace}/${name}`, { secret: name, namespace }),
  });

  return {
    get: table.get,
    list: (namespace, page) => table.list(namespace === "" ? all : ofNamespace(namespace), page),
    change: ({ namespace, name }, decide) =>
      table.change({ namespace, name }, async (found) => {
        const draft = await decide(found);
        if (draft === undefined) return undefined;
        const { record, note, unused } = draft;
        const at = (record ?? found?.record)?.updatedAt;
        const told = JSON.stringify({ namespace, secret: name, at, ...note });
        return { record, note: told, ...(unused === undefined ? {} : { alone: unused }) };
      }),
    async users(name, version, limit, after) {
      const page = await deps.store.list({ ...secretUser(name, version), limit, after });
      return page.records.map(({ ref }) => ref);
    },
    expected: ({ record, rev }) => ({ ref: refOf(record), expectedRev: rev }),
  };
};
