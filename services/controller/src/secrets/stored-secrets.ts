/**
 * Reads stored secrets for calls. What was read last is kept for some seconds, so that a burst of calls costs one read, and then wiped.
 *
 * T1 A value is kept no longer than `keptMs`, and not at all once a change of its secret was heard of. T2 What is kept is bytes, which are
 * overwritten when they go. T3 A read that a change overtook is not kept.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { type SecretName, secretKey, versionIn } from "../domain/secret/secret.ts";
import type { SecretValues } from "./seal.ts";
import type { Sealer } from "./sealer.ts";
import type { SecretRecords } from "./secret-records.ts";

export interface StoredReading {
  readonly values: SecretValues;
  readonly version: number;
  /** Tells this life of the version from another one of the same number. */
  readonly createdAt: number;
  /** It was read seconds ago. */
  readonly kept: boolean;
}

export interface StoredSecrets {
  /** undefined: there is no such secret, or not that version of it. */
  read(name: SecretName, version: number | undefined): Promise<StoredReading | undefined>;
  /** Somebody changed the secret. */
  forget(key: string): void;
  forgetAll(): void;
}

export interface StoredSecretsOptions {
  readonly records: Pick<SecretRecords, "get">;
  readonly sealer: Pick<Sealer, "open">;
  readonly clock: Clock;
}

interface Kept {
  readonly bytes: Buffer;
  readonly version: number;
  readonly createdAt: number;
  readonly cancel: () => void;
}

const keptMs = 5_000;
const keptSecrets = 256;

export const createStoredSecrets = ({ records, sealer, clock }: StoredSecretsOptions): StoredSecrets => {
  const kept = new Map<string, Map<number | undefined, Kept>>();
  let changes = 0;

  const wipe = (entry: Kept): void => {
    entry.cancel();
    entry.bytes.fill(0); // T2
  };

  const forget = (key: string): void => {
    changes += 1;
    for (const entry of kept.get(key)?.values() ?? []) wipe(entry); // T1
    kept.delete(key);
  };

  const keep = (key: string, asked: number | undefined, reading: StoredReading): void => {
    if (!kept.has(key) && kept.size >= keptSecrets) forget(kept.keys().next().value ?? key);
    const versions = kept.get(key) ?? new Map<number | undefined, Kept>();
    const before = versions.get(asked);
    if (before !== undefined) wipe(before);
    const bytes = Buffer.from(JSON.stringify(reading.values));
    const { version, createdAt } = reading;
    versions.set(asked, { bytes, version, createdAt, cancel: clock.timer(keptMs, () => forget(key)) });
    kept.set(key, versions);
  };

  return {
    async read(name, asked) {
      const key = secretKey(name);
      const known = kept.get(key)?.get(asked);
      if (known !== undefined) {
        const values: SecretValues = Object.freeze(JSON.parse(known.bytes.toString("utf8")));
        return { values, version: known.version, createdAt: known.createdAt, kept: true };
      }
      const before = changes;
      const found = await records.get(name);
      const version = found === undefined ? undefined : versionIn(found.record, asked);
      if (version === undefined) return undefined;
      const values = await sealer.open(version, name);
      const reading = { values, version: version.version, createdAt: version.createdAt, kept: false };
      if (changes === before) keep(key, asked, reading); // T3
      return reading;
    },
    forget,
    forgetAll() {
      for (const key of [...kept.keys()]) forget(key);
    },
  };
};
