import type { SealedValue, SecretName, SecretVersionRecord } from "../domain/secret/secret.ts";
import type { KeyFile } from "./key-file.ts";
import { holdsSame, open, rewrap, type SealSubject, type SecretValues, seal } from "./seal.ts";

/** Locks and unlocks values of this cluster with the keys as they are now. All reject with SECRETS_UNAVAILABLE. */
export interface Sealer {
  seal(values: SecretValues, name: SecretName, version: number): Promise<SealedValue>;
  open(held: Pick<SecretVersionRecord, "version" | "sealed">, name: SecretName): Promise<SecretValues>;
  holdsSame(
    held: Pick<SecretVersionRecord, "version" | "sealed">,
    name: SecretName,
    values: SecretValues,
  ): Promise<boolean>;
  /** The same object when it is under the first key already. */
  rewrap<T extends Pick<SecretVersionRecord, "version" | "sealed">>(held: T, name: SecretName): Promise<T>;
}

export interface SealerOptions {
  readonly keyFile: KeyFile;
  readonly clusterUid: () => Promise<string>;
}

export const createSealer = ({ keyFile, clusterUid }: SealerOptions): Sealer => {
  const subject = async (name: SecretName, version: number): Promise<SealSubject> => ({
    clusterUid: await clusterUid(),
    namespace: name.namespace,
    name: name.name,
    version,
  });
  return {
    async seal(values, name, version) {
      return seal(values, await subject(name, version), await keyFile.keys());
    },
    async open({ sealed, version }, name) {
      return open(sealed, await subject(name, version), await keyFile.keys());
    },
    async holdsSame({ sealed, version }, name, values) {
      return holdsSame(sealed, await subject(name, version), await keyFile.keys(), values);
    },
    async rewrap(held, name) {
      const keys = await keyFile.keys();
      if (held.sealed.key === keys.first.id) return held;
      return { ...held, sealed: rewrap(held.sealed, await subject(name, held.version), keys) };
    },
  };
};
