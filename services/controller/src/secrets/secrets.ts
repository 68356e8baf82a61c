/**
 * Where secrets come from. Records hold references; a value is read for one call and kept by nobody afterwards.
 *
 * X1 No value, and no piece of one, is in an error. X2 Nothing of a file, a variable or a Vault is remembered between two calls: a corrected
 * file counts at the next try; of a stored secret a value stays for seconds, and no longer than until it is changed.
 */
import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { byteLength, limits } from "../domain/limits.ts";
import { parseSecretRef, type SecretPlace, storedRef } from "../domain/secret.ts";
import type { StoredSecrets } from "./stored-secrets.ts";
import type { Vault } from "./vault.ts";

type Values = Readonly<Record<string, string>>;

export interface SecretReading {
  readonly values: Values;
  /** Another one after each change of the secret; says nothing of the value. Empty for no reference. */
  readonly version: string;
  /** The reference that names this very version, where versions are kept. */
  readonly pinned?: string;
}

export interface Secrets {
  /** The key-value pairs behind a reference; none for no reference. Rejects with SECRET_NOT_FOUND, or SECRET_UNREADABLE for now. */
  resolve(ref: string | undefined): Promise<Values>;
  read(ref: string | undefined): Promise<SecretReading>;
}

export interface SecretsOptions {
  /** The controller's own environment, for references like `env:NAME`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stored?: Pick<StoredSecrets, "read">;
  readonly vault?: Vault;
}

/** Far above the 4 KiB that CSI takes: a larger file is the wrong file. */
const maxFileBytes = 64 * 1024;

const none: SecretReading = { values: {}, version: "" };

const digest = (...parts: readonly (string | number | bigint)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 16);

export const createSecrets = ({ env, stored, vault }: SecretsOptions): Secrets => {
  const fromStore = async (ref: string, place: SecretPlace & { readonly kind: "stored" }): Promise<SecretReading> => {
    const found = await stored?.read(place, place.version);
    if (found === undefined) throw missing(ref, "is not there; put it, or correct the reference");
    const { values, version, createdAt } = found;
    const pinned = storedRef(place.namespace, place.name, version);
    return { values, version: digest("stored", pinned, createdAt), pinned };
  };

  const fromVault = async (ref: string, place: SecretPlace & { readonly kind: "vault" }): Promise<SecretReading> => {
    const found = await vault?.read(place.path, place.version);
    if (found === undefined) throw missing(ref, "is not there in Vault, or its version was deleted");
    return { values: checked(ref, found.values), version: digest("vault", ref, found.version) };
  };

  const readPlace = (ref: string, place: SecretPlace | undefined): Promise<SecretReading> => {
    switch (place?.kind) {
      case "file":
        return fromFile(ref, place.path);
      case "env":
        return fromVariable(ref, env[place.name]);
      case "vault":
        return fromVault(ref, place);
      case "stored":
        return fromStore(ref, place);
      case undefined:
        throw missing(
          ref,
          'is of a kind that is not known; use "file:/absolute/path", "env:NAME", "secret:name" or "vault:mount/path"',
        );
    }
  };

  const read = async (ref: string | undefined): Promise<SecretReading> => {
    if (ref === undefined || ref === "") return none;
    try {
      return await readPlace(ref, parseSecretRef(ref));
    } catch (error) {
      throw isHoldfastError(error) && error.metadata["ref"] === undefined ? named(ref, error) : error;
    }
  };

  return { read, resolve: async (ref) => (await read(ref)).values };
};

/** What a provider says knows nothing of references. */
const named = (ref: string, { kind, reason, message, metadata }: HoldfastError): HoldfastError =>
  new HoldfastError({ kind, reason, message: `secret ${ref}: ${message}`, metadata: { ...metadata, ref } });

const fromVariable = async (ref: string, text: string | undefined): Promise<SecretReading> => {
  if (text === undefined || text === "") throw missing(ref, "is not set in the environment of this controller");
  // Nobody can change the environment of a running process: its life is the version.
  return { values: checked(ref, parsed(ref, text)), version: digest("env", ref) };
};

const fromFile = async (ref: string, file: string): Promise<SecretReading> => {
  const found = await look(ref, file);
  if (!found.directory)
    return { values: checked(ref, parsed(ref, await read(ref, file))), version: digest("file", ref, found.stamp) };
  // One file a key, as secrets are mounted into containers; names with a dot in front are the mount's own machinery.
  const names = (await readdir(file).catch(unreadable(ref))).filter((name) => !name.startsWith("."));
  const pairs: [string, string][] = [];
  const stamps: string[] = [];
  for (const name of names) {
    const entry = path.join(file, name);
    const { directory, stamp } = await look(ref, entry);
    if (directory) continue;
    pairs.push([name, await read(ref, entry)]);
    stamps.push(name, stamp);
  }
  return { values: checked(ref, Object.fromEntries(pairs)), version: digest("directory", ref, ...stamps) };
};

/** `stamp` is another one after each change of the file; of its content it says nothing. */
const look = async (ref: string, file: string): Promise<{ readonly directory: boolean; readonly stamp: string }> => {
  const found = await stat(file, { bigint: true }).catch(unreadable(ref));
  const directory = found.isDirectory();
  if (!directory && !found.isFile()) throw missing(ref, "is no regular file");
  if (!directory && found.size > maxFileBytes) throw missing(ref, `is larger than ${maxFileBytes} bytes`);
  if (!directory && (found.mode & 0o007n) !== 0n)
    throw missing(ref, `can be read or written by everybody on this machine; run: chmod o-rwx ${file}`);
  return { directory, stamp: `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs}` };
};

const read = (ref: string, file: string): Promise<string> => readFile(file, "utf8").catch(unreadable(ref));

/** Only the code: messages of fs name the path, which the reference does already. */
const unreadable =
  (ref: string) =>
  (error: unknown): never => {
    const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error";
    throw missing(ref, `cannot be read by this controller (${code})`);
  };

/** A parse error quotes the text around it, so that it is not handed on (X1). */
const parsed = (ref: string, text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    throw missing(ref, 'is no JSON; it has to be one object of texts, such as {"user": "…", "key": "…"}');
  }
};

const checked = (ref: string, value: unknown): Values => {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw missing(ref, "has to be one JSON object of texts");
  const entries = Object.entries(value);
  const odd = entries.find(([, item]) => typeof item !== "string");
  if (odd !== undefined) throw missing(ref, `has a value under ${JSON.stringify(odd[0].slice(0, 64))} that is no text`);
  const pairs = entries as [string, string][];
  const bytes = pairs.reduce((sum, [key, item]) => sum + byteLength(key) + byteLength(item), 0);
  if (bytes > limits.mapBytes) throw missing(ref, `holds ${bytes} bytes; CSI takes at most ${limits.mapBytes}`);
  const long = pairs.find(([key]) => key === "" || byteLength(key) > limits.stringBytes);
  if (long !== undefined) throw missing(ref, `has an empty key, or one of more than ${limits.stringBytes} bytes`);
  return Object.freeze(Object.fromEntries(pairs));
};

const missing = (ref: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "SECRET_NOT_FOUND",
    message: `secret ${ref} ${why}`,
    metadata: { ref },
  });
