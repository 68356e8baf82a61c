/**
 * Secrets that Holdfast keeps: written in versions, never read back, and not deleted while anything refers to them.
 *
 * K1 Whoever begins to refer to a secret compares its record in the same commit, and a deletion is refused in its own commit while any record
 * carries the entry of a user: of the two, one is refused. K2 A version that is named nowhere but is the newest counts as referred to by
 * everybody who names none. K3 Numbers of versions only grow while the secret lives.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { limits } from "../../domain/limits.ts";
import {
  lastVersion,
  maxSecretVersions,
  newestVersion,
  nextVersion,
  type SecretName,
  type SecretRecord,
  type SecretVersionRecord,
  secretKey,
  secretUser,
  storedRef,
  storedSecrets,
  versionIn,
  withVersion,
} from "../../domain/secret/secret.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import type { Sealer } from "../../secrets/sealer.ts";
import type { SecretNote, SecretRecords, StoredSecret } from "../../secrets/secret-records.ts";
import type { Caller } from "../model.ts";
import { secretFull, secretInUse, secretNotFound, secretReplaced } from "./secret-errors.ts";
import type { DeleteSecretInput, PutSecretInput, SecretCommands, SecretReferences } from "./secret-model.ts";
import { validateDeleteSecret, validatePutSecret } from "./validate-secret.ts";

export interface SecretCommandDeps {
  readonly records: SecretRecords;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly granted: SecretGrants;
  /** The newest version is another one, or the secret is gone. */
  readonly changed: (name: SecretName) => void;
}

const maxScanned = 2_000;

interface Put extends PutSecretInput {
  readonly inline: boolean;
}

const noteOf = (change: SecretNote["change"], version: number, { who, why }: Caller): SecretNote => ({
  change,
  version,
  who,
  why,
});

export const createSecretCommands = (deps: SecretCommandDeps): SecretCommands & SecretReferences => {
  const { records, sealer, clock, changed } = deps;

  /** The version that this request made before, or that makes it needless. */
  const standing = async (record: SecretRecord, input: Put): Promise<SecretVersionRecord | undefined> => {
    const same = (one: SecretVersionRecord) => sealer.holdsSame(one, record, input.values);
    const repeated =
      input.requestId === "" ? undefined : record.versions.find((one) => one.requestId === input.requestId);
    if (repeated !== undefined) {
      if (!(await same(repeated))) throw secretReplaced(record, input.requestId);
      return repeated;
    }
    const newest = newestVersion(record);
    return newest !== undefined && (await same(newest)) ? newest : undefined;
  };

  const put = async (
    input: Put,
    caller: Caller,
  ): Promise<{ readonly secret: StoredSecret; readonly version: number }> => {
    let version = 0;
    const { now, changed: stored } = await records.change(input, async (found) => {
      const before = found === undefined ? undefined : await standing(found.record, input);
      version = before?.version ?? nextVersion(found?.record); // K3
      if (before !== undefined) return undefined;
      if ((found?.record.versions.length ?? 0) >= maxSecretVersions) throw secretFull(input, maxSecretVersions);
      const made: SecretVersionRecord = {
        version,
        createdAt: clock.now(),
        keys: Object.keys(input.values).sort(),
        sealed: await sealer.seal(input.values, input, version),
        requestId: input.requestId,
      };
      const by = { who: caller.who, why: caller.why };
      const record = withVersion(found?.record, input, made, by, input.inline);
      return { record, note: noteOf("PUT", version, caller) };
    });
    if (now === undefined) throw secretNotFound(storedRef(input.namespace, input.name));
    if (stored) changed(input);
    return { secret: now, version };
  };

  const remove = async (input: DeleteSecretInput, caller: Caller): Promise<boolean> => {
    let version: number | undefined;
    const { crowded, changed: removed } = await records.change(input, (found) => {
      if (found === undefined) return undefined;
      const { record } = found;
      const versions = record.versions.filter((one) => one.version !== input.version);
      if (input.version !== 0 && versions.length === record.versions.length) return undefined;
      const whole = input.version === 0 || versions.length === 0;
      version = whole || newestVersion(record)?.version === input.version ? undefined : input.version; // K2
      const without = {
        ...record,
        versions,
        last: lastVersion(record), // K3
        updatedAt: clock.now(),
        changedBy: { who: caller.who, why: caller.why },
      };
      return {
        record: whole ? null : without,
        note: noteOf("DELETED", whole ? 0 : input.version, caller),
        unused: secretUser(record, version), // K1
      };
    });
    if (!crowded) return removed;
    const [user] = await records.users(input, version, 1);
    throw secretInUse(input, version, user);
  };

  return {
    granted: deps.granted,

    async putSecret(input, caller) {
      validatePutSecret(input);
      return await put({ ...input, inline: false }, caller);
    },

    async deleteSecret(input, caller) {
      validateDeleteSecret(input);
      const removed = await remove(input, caller);
      changed(input);
      return removed;
    },

    async listSecrets({ namespace, namePrefix }, { size, after, signal }) {
      const items: StoredSecret[] = [];
      const wanted = Math.max(1, Math.min(size, limits.pageSize));
      let cursor = after;
      for (let seen = 0; seen < maxScanned; ) {
        signal?.throwIfAborted();
        const page = await records.list(namespace, { after: cursor, limit: wanted });
        seen += page.records.length;
        for (const one of page.records) {
          if (items.length === wanted) return { items, next: cursor };
          if (one.record.name.startsWith(namePrefix)) items.push(one);
          cursor = secretKey(one.record);
        }
        if (page.next === undefined) return { items, next: undefined };
        cursor = page.next;
        if (items.length === wanted) break;
      }
      return { items, next: cursor };
    },

    async expected(refs) {
      const found = await Promise.all(
        storedSecrets(refs).map(async (place) => {
          const secret = await records.get(place);
          if (secret === undefined || versionIn(secret.record, place.version) === undefined)
            throw secretNotFound(storedRef(place.namespace, place.name, place.version));
          return records.expected(secret); // K1
        }),
      );
      return [...new Map(found.map((one) => [one.ref.key, one])).values()];
    },

    async putInline(name, values, caller) {
      const { version } = await put({ ...name, values, requestId: "", inline: true }, caller);
      return storedRef(name.namespace, name.name, version);
    },

    async findInline(name, values) {
      const found = await records.get(name);
      for (const one of found?.record.versions.toReversed() ?? [])
        if (await sealer.holdsSame(one, name, values)) return storedRef(name.namespace, name.name, one.version);
      return undefined;
    },
  };
};
