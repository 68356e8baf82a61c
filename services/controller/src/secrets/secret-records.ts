/** Stored secrets as records: ciphertext only, compared by revision like everything else in the store. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type SecretName, type SecretRecord, secretKey, secretUser } from "../domain/secret.ts";
import type { AggregateRef, Commit, EventWrite, ExpectedRecord, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { createDamagedRecords, type DamagedRecords } from "../records/damaged-records.ts";
import { readSecret } from "../records/record-readers.ts";

export interface StoredSecret {
  readonly record: SecretRecord;
  readonly rev: number;
}

export interface SecretPage {
  readonly secrets: readonly StoredSecret[];
  readonly next: string | undefined;
}

export interface SecretRecords {
  get(name: SecretName): Promise<StoredSecret | undefined>;
  list(namespace: string, page: { readonly after?: string | undefined; readonly limit: number }): Promise<SecretPage>;
  /** undefined: somebody else was faster, or nobody knows; read and decide again. */
  write(record: SecretRecord, expectedRev: number, note: SecretNote): Promise<StoredSecret | undefined>;
  /** "used": a record refers to it. */
  remove(record: SecretRecord, expectedRev: number, note: SecretNote): Promise<"removed" | "again" | "used">;
  /** Writes the record without a version, unless a record refers to that version; to any of the secret, if none is named. */
  writeWithout(
    record: SecretRecord,
    expectedRev: number,
    version: number | undefined,
    note: SecretNote,
  ): Promise<"removed" | "again" | "used">;
  /** Who refers to it: the keys of volumes, snapshots and groups, a page of them. */
  users(name: SecretName, version: number | undefined, limit: number, after?: string): Promise<readonly AggregateRef[]>;
  /** Nothing that refers to a secret is stored unless the secret is as it was read. */
  expected(stored: StoredSecret): ExpectedRecord;
}

export interface SecretNote {
  readonly change: "PUT" | "DELETED" | "REWRAPPED";
  readonly version: number;
  readonly who: string;
  readonly why: string;
}

const all = { index: "secret-all", value: "all" } as const;
const refOf = (name: SecretName): AggregateRef => ({ kind: "secret", key: secretKey(name) });

const versioned = (stored: StoredRecord): StoredSecret => ({ record: readSecret(stored), rev: stored.rev });

const eventOf = ({ namespace, name, updatedAt }: SecretRecord, note: SecretNote): EventWrite => ({
  type: "secret",
  ref: refOf({ namespace, name }),
  body: JSON.stringify({ namespace, secret: name, at: updatedAt, ...note }),
});

export interface SecretRecordsDeps {
  readonly store: Store;
  readonly ids: Ids;
  readonly damages?: DamagedRecords;
}

export const createSecretRecords = (deps: SecretRecordsDeps): SecretRecords => {
  const { store, ids, damages = createDamagedRecords() } = deps;
  const commit = async (
    record: SecretRecord,
    expectedRev: number,
    body: string | null,
    note: SecretNote,
    alone?: Commit["alone"],
  ): Promise<"crowded" | number | undefined> => {
    const indexes = [all, { index: "secret-namespace", value: record.namespace }];
    try {
      const result = await store.commit({
        opId: ids.uuid(),
        writes: [{ ref: refOf(record), expectedRev, body, indexes, due: [] }],
        events: [eventOf(record, note)],
        requiresVetted: false,
        ...(alone === undefined ? {} : { alone }),
      });
      if (result.ok) return result.revs[0] ?? expectedRev + 1;
      return result.crowded === true ? "crowded" : undefined;
    } catch (error) {
      if (error instanceof HoldfastError && error.reason === "STORE_OUTCOME_UNKNOWN") return undefined;
      throw error;
    }
  };

  const removal = (result: "crowded" | number | undefined): "removed" | "again" | "used" =>
    result === "crowded" ? "used" : result === undefined ? "again" : "removed";

  return {
    async get(name) {
      const stored = await store.get(refOf(name));
      return stored === undefined ? undefined : damages.read(stored, versioned);
    },
    async list(namespace, { after, limit }) {
      const where = namespace === "" ? all : { index: "secret-namespace", value: namespace };
      const page = await store.list({ ...where, limit, ...(after === undefined ? {} : { after }) });
      return { secrets: damages.readEach(page.records, versioned), next: page.next };
    },
    async write(record, expectedRev, note) {
      const rev = await commit(record, expectedRev, JSON.stringify(record), note);
      return typeof rev === "number" ? { record, rev } : undefined;
    },
    remove: async (record, expectedRev, note) =>
      removal(await commit(record, expectedRev, null, note, secretUser(record))),
    writeWithout: async (record, expectedRev, version, note) =>
      removal(await commit(record, expectedRev, JSON.stringify(record), note, secretUser(record, version))),
    async users(name, version, limit, after) {
      const page = await store.list({ ...secretUser(name, version), limit, ...(after === undefined ? {} : { after }) });
      return page.records.map(({ ref }) => ref);
    },
    expected: ({ record, rev }) => ({ ref: refOf(record), expectedRev: rev }),
  };
};
