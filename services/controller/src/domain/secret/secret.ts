import type { IndexEntry } from "../store-types.ts";

/** Where a secret's value is found, as records and requests say it. */
export type SecretPlace =
  | { readonly kind: "file"; readonly root: string; readonly path: string }
  | { readonly kind: "env"; readonly name: string }
  | { readonly kind: "vault"; readonly path: string; readonly version: number | undefined }
  | {
      readonly kind: "stored";
      readonly namespace: string;
      readonly name: string;
      readonly version: number | undefined;
    };

const word = "[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?";
const stored = new RegExp(`^secret:(${word})/(${word})(?:@([1-9][0-9]{0,14}))?$`);
const vault = /^vault:([A-Za-z0-9_.~-]+(?:\/[A-Za-z0-9_.~-]+)+)(?:@([1-9][0-9]{0,14}))?$/;

/** Each part begins with a letter, a digit or "_": there is no "..", no path from "/", and nothing of a mount's own machinery. */
const file = /^file:([a-z0-9][a-z0-9._-]{0,62})\/([A-Za-z0-9_][A-Za-z0-9._@+-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._@+-]*)*)$/;

const versionOf = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));

/** undefined: a reference that nobody can follow. */
export const parseSecretRef = (ref: string): SecretPlace | undefined => {
  const [, root, filePath] = file.exec(ref) ?? [];
  if (root !== undefined && filePath !== undefined) return { kind: "file", root, path: filePath };
  if (/^env:[A-Za-z_][A-Za-z0-9_]*$/.test(ref)) return { kind: "env", name: ref.slice("env:".length) };
  const [, path, vaultVersion] = vault.exec(ref) ?? [];
  if (path?.split("/").every((part) => part !== "." && part !== "..") === true)
    return { kind: "vault", path, version: versionOf(vaultVersion) };
  const [, namespace, name, version] = stored.exec(ref) ?? [];
  if (namespace === undefined || name === undefined || ref.includes("..")) return undefined;
  return { kind: "stored", namespace, name, version: versionOf(version) };
};

/**
 * As records hold it: a stored secret with its namespace, so that whoever resolves it needs nothing else. A caller's "secret:name"
 * is always of the namespace of what it asks for; one that names another becomes a reference that nobody can follow.
 */
export const withNamespace = (namespace: string, ref: string): string =>
  ref.startsWith("secret:") ? `secret:${namespace}/${ref.slice("secret:".length)}` : ref;

/** As callers say it. */
export const withoutNamespace = (ref: string): string => ref.replace(/^secret:[^/]*\//, "secret:");

export const storedRef = (namespace: string, name: string, version?: number): string =>
  `secret:${namespace}/${name}${version === undefined ? "" : `@${version}`}`;

/** The same secret, in its newest version; undefined when the reference names no version. */
export const unpinned = (ref: string | undefined): string | undefined => {
  const place = ref === undefined ? undefined : parseSecretRef(ref);
  return place?.kind === "stored" && place.version !== undefined ? storedRef(place.namespace, place.name) : undefined;
};

export interface SecretName {
  readonly namespace: string;
  readonly name: string;
}

export const secretKey = ({ namespace, name }: SecretName): string => `${namespace}/${name}`;

/** Who refers to a secret, and to one version of it: while a record carries the entry, what it names is not deleted. */
export const secretUser = (name: SecretName, version?: number): IndexEntry => ({
  index: "secret-user",
  value: version === undefined ? secretKey(name) : `${secretKey(name)}@${version}`,
});

/** The entries that a record with these references has to carry. */
export const secretUsers = (refs: readonly (string | undefined)[]): readonly IndexEntry[] => {
  const entries = new Map<string, IndexEntry>();
  for (const ref of refs) {
    const place = ref === undefined ? undefined : parseSecretRef(ref);
    if (place?.kind !== "stored") continue;
    for (const entry of [secretUser(place), ...(place.version === undefined ? [] : [secretUser(place, place.version)])])
      entries.set(entry.value, entry);
  }
  return [...entries.values()];
};

/** The stored secrets among references, each once. */
export const storedSecrets = (
  refs: readonly (string | undefined)[],
): readonly (SecretName & { version: number | undefined })[] => {
  const places = refs.flatMap((ref) => {
    const place = ref === undefined ? undefined : parseSecretRef(ref);
    return place?.kind === "stored" ? [place] : [];
  });
  return [...new Map(places.map((place) => [storedRef(place.namespace, place.name, place.version), place])).values()];
};

/** Ciphertext, and the key of this one version, itself encrypted with the key that `key` names. */
export interface SealedValue {
  readonly key: string;
  readonly wrapped: string;
  readonly body: string;
}

export interface SecretVersionRecord {
  readonly version: number;
  readonly createdAt: number;
  /** Which keys it has; no values. */
  readonly keys: readonly string[];
  readonly sealed: SealedValue;
  readonly requestId: string;
}

export interface SecretRecord extends SecretName {
  /** Oldest first; never empty. */
  readonly versions: readonly SecretVersionRecord[];
  /** The highest number that was ever given, where its version is not there any more. */
  readonly last?: number;
  /** Came with a volume or snapshot and goes with it. */
  readonly inline: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}

/** More are not kept: old ones have to be deleted first, by whoever knows that nothing needs them. */
export const maxSecretVersions = 64;

export const newestVersion = ({ versions }: SecretRecord): SecretVersionRecord | undefined => versions.at(-1);

export const versionIn = (record: SecretRecord, version: number | undefined): SecretVersionRecord | undefined =>
  version === undefined ? newestVersion(record) : record.versions.find((one) => one.version === version);

/** The record with one version more; the numbers of a life are never used again. */
export const withVersion = (
  record: SecretRecord | undefined,
  name: SecretName,
  made: Omit<SecretVersionRecord, "version"> & { readonly version: number },
  by: SecretRecord["changedBy"],
  inline: boolean,
): SecretRecord => ({
  namespace: name.namespace,
  name: name.name,
  versions: [...(record?.versions ?? []), made],
  ...(record?.last === undefined ? {} : { last: record.last }),
  inline: record?.inline ?? inline,
  createdAt: record?.createdAt ?? made.createdAt,
  updatedAt: made.createdAt,
  changedBy: by,
});

/** The highest number that was given, whether its version is still there or not. */
export const lastVersion = (record: SecretRecord): number =>
  Math.max(newestVersion(record)?.version ?? 0, record.last ?? 0);

export const nextVersion = (record: SecretRecord | undefined): number =>
  record === undefined ? 1 : lastVersion(record) + 1;
