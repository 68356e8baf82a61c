import type { SecretName } from "../../domain/secret/secret.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import type { ExpectedRecord } from "../../domain/store-types.ts";
import type { StoredSecret } from "../../secrets/secret-records.ts";
import type { Caller, Page, PageInput } from "../model.ts";

export interface PutSecretInput extends SecretName {
  readonly values: Readonly<Record<string, string>>;
  readonly requestId: string;
}

export interface DeleteSecretInput extends SecretName {
  /** 0 = all of it. */
  readonly version: number;
}

export interface SecretFilter {
  /** Empty = every one. */
  readonly namespace: string;
  readonly namePrefix: string;
}

/** What the API of secrets calls. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface SecretCommands {
  putSecret(
    input: PutSecretInput,
    caller: Caller,
  ): Promise<{ readonly secret: StoredSecret; readonly version: number }>;
  /** False: there was none, or not that version. */
  deleteSecret(input: DeleteSecretInput, caller: Caller): Promise<boolean>;
  listSecrets(filter: SecretFilter, page: PageInput): Promise<Page<StoredSecret>>;
}

/** What commands that store references need. */
export interface SecretReferences {
  /** Whether records of the namespace may refer to it; asked before anything is stored. */
  readonly granted: SecretGrants;
  /**
   * The stored secrets behind these references, to be compared when the record that refers to them is stored: none of them is gone by
   * then. Rejects with SECRET_NOT_FOUND. Records that refer to secrets also carry `secretUsers` of them among their indexes.
   */
  expected(refs: readonly (string | undefined)[]): Promise<readonly ExpectedRecord[]>;
  /**
   * Values that came with a request become a version of the secret; answers the reference to that very version. The same values
   * again are the same version. It goes by itself once nothing refers to it.
   */
  putInline(name: SecretName, values: Readonly<Record<string, string>>, caller: Caller): Promise<string>;
  /** The reference to the version that holds these very values; undefined for none. */
  findInline(name: SecretName, values: Readonly<Record<string, string>>): Promise<string | undefined>;
}
