/**
 * Where secrets come from. Records hold references; a value is read for one call and kept by nobody afterwards.
 *
 * X1 No value, and no piece of one, is in an error. X2 Nothing of a file, a variable or a Vault is remembered between two calls: a corrected
 * file counts at the next try; of a stored secret a value stays for seconds, and no longer than until it is changed. X3 An error of a
 * reference to a file, a variable or Vault is one text, whatever is wrong: it does not tell whether a path exists. The log says why.
 */
import { createHash } from "node:crypto";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { byteLength, limits } from "../domain/limits.ts";
import { type SecretPlace, storedRef } from "../domain/secret/secret.ts";
import { formerFile, type GrantedPlace, grantedPlace, type SecretScope } from "../domain/secret/secret-scope.ts";
import { readSecretFile } from "./secret-files.ts";
import { parseSecretText, SecretUnusable } from "./secret-unusable.ts";
import type { StoredSecrets } from "./stored-secrets.ts";
import type { Vault } from "./vault.ts";

type Values = Readonly<Record<string, string>>;

export interface SecretReading {
  readonly values: Values;
  /** Another one after each change of the secret; says nothing of the value. Empty for no reference. */
  readonly version: string;
  /** The reference that names this very version, where versions are kept. */
  readonly pinned?: string;
  /** It was read seconds ago, and is kept. */
  readonly kept?: boolean;
}

/** The call that a value is read for. */
export interface SecretUse {
  /** Or the snapshot. */
  readonly volume: string | undefined;
  readonly method: string;
}

interface ToldReading extends SecretUse {
  readonly reference: string;
  readonly version: string;
  readonly namespace: string | undefined;
}

export interface Secrets {
  /**
   * The key-value pairs behind a reference of a record of that namespace; none for no reference. Rejects with SECRET_NOT_FOUND, or
   * SECRET_UNREADABLE for now.
   */
  resolve(ref: string | undefined, namespace: string | undefined, use: SecretUse): Promise<Values>;
  read(ref: string | undefined, namespace: string | undefined, use: SecretUse): Promise<SecretReading>;
}

export interface SecretsOptions {
  /** What the settings grant; nothing but stored secrets when absent. */
  readonly scope?: SecretScope;
  /** The controller's own environment, for references like `env:NAME`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stored?: Pick<StoredSecrets, "read">;
  readonly vault?: Vault;
  /** Told of each value that was read for a call, before the call has it; where it rejects, the call has none. */
  readonly onRead?: ((reading: ToldReading) => Promise<void>) | undefined;
  readonly log: Pick<Logger, "warn">;
}

const none: SecretReading = { values: {}, version: "" };
const nothingGranted: SecretScope = { files: [], env: [], vault: [] };

const digest = (...parts: readonly (string | number | bigint)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 16);

export const createSecrets = ({ scope = nothingGranted, env, stored, vault, onRead, log }: SecretsOptions): Secrets => {
  const fromStore = async (ref: string, place: SecretPlace & { readonly kind: "stored" }): Promise<SecretReading> => {
    const found = await stored?.read(place, place.version);
    if (found === undefined) throw missing(ref, "is not there; put it, or correct the reference");
    const { values, version, createdAt, kept } = found;
    const pinned = storedRef(place.namespace, place.name, version);
    return { values, version: digest("stored", pinned, createdAt), pinned, kept };
  };

  const fromVault = async (ref: string, place: SecretPlace & { readonly kind: "vault" }): Promise<SecretReading> => {
    const found = await vault?.read(place.path, place.version);
    if (found === undefined) throw new SecretUnusable("is not there in Vault, or its version was deleted");
    return { values: checked(found.values), version: digest("vault", ref, found.version) };
  };

  const readPlace = async (ref: string, place: GrantedPlace | undefined): Promise<SecretReading> => {
    switch (place?.kind) {
      case "file": {
        const { values, stamps } = await readSecretFile(place.dir, place.path);
        return { values: checked(values), version: digest("file", ref, ...stamps) };
      }
      case "env":
        return fromVariable(ref, env[place.name]);
      case "vault":
        return await fromVault(ref, place);
      case "stored":
        return await fromStore(ref, place);
      case undefined:
        throw new SecretUnusable("is none that the settings grant to the namespace");
    }
  };

  const readNamed = async (ref: string, namespace: string | undefined): Promise<SecretReading> => {
    try {
      return await readPlace(ref, grantedPlace(scope, namespace, ref) ?? formerFile(scope, namespace, ref));
    } catch (error) {
      if (error instanceof SecretUnusable) {
        log.warn("a secret cannot be used", { ref, namespace: namespace ?? "", why: error.message });
        throw missing(ref, unusable); // X3
      }
      throw isHoldfastError(error) && error.metadata["ref"] === undefined ? named(ref, error) : error;
    }
  };

  const read: Secrets["read"] = async (ref, namespace, { volume, method }) => {
    if (ref === undefined || ref === "") return none;
    const reading = await readNamed(ref, namespace);
    const { version, pinned, kept } = reading;
    if (kept !== true) await onRead?.({ reference: ref, version: pinned ?? version, namespace, volume, method });
    return reading;
  };

  return { read, resolve: async (...asked) => (await read(...asked)).values };
};

const unusable =
  "cannot be used: it is not there, not granted to the namespace, or not fit; correct the reference, or ask the operator, " +
  "whom the log of the controller tells why";

/** What a provider says knows nothing of references. */
const named = (ref: string, { kind, reason, message, metadata }: HoldfastError): HoldfastError =>
  new HoldfastError({ kind, reason, message: `secret ${ref}: ${message}`, metadata: { ...metadata, ref } });

const fromVariable = (ref: string, text: string | undefined): SecretReading => {
  if (text === undefined || text === "") throw new SecretUnusable("is not set in the environment of this controller");
  // Nobody can change the environment of a running process: its life is the version.
  return { values: checked(parseSecretText(text)), version: digest("env", ref) };
};

const checked = (value: unknown): Values => {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new SecretUnusable("has to be one JSON object of texts");
  const entries = Object.entries(value);
  if (entries.some(([, item]) => typeof item !== "string")) throw new SecretUnusable("has a value that is no text");
  const pairs = entries as [string, string][];
  const bytes = pairs.reduce((sum, [key, item]) => sum + byteLength(key) + byteLength(item), 0);
  if (bytes > limits.mapBytes) throw new SecretUnusable(`holds ${bytes} bytes; CSI takes at most ${limits.mapBytes}`);
  if (pairs.some(([key]) => key === "" || byteLength(key) > limits.stringBytes))
    throw new SecretUnusable(`has an empty key, or one of more than ${limits.stringBytes} bytes`);
  return Object.freeze(Object.fromEntries(pairs));
};

const missing = (ref: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "SECRET_NOT_FOUND",
    message: `secret ${ref} ${why}`,
    metadata: { ref },
  });
