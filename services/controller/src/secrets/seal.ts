/**
 * Values under lock: AES-256-GCM with a key of this one version, which is itself encrypted with a key of the key file.
 *
 * S1 A key of the key file encrypts nothing itself: each use of it derives a key of its own, so that no number of writes wears out the
 * random nonces of GCM. S2 What was sealed for one cluster,
 * secret and version opens for no other: they are bound in. S3 Plain bytes are overwritten as soon as they were used.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { SealedValue, SecretName } from "../domain/secret/secret.ts";
import { type SecretKeys, unavailable } from "./key-file.ts";

export type SecretValues = Readonly<Record<string, string>>;

export interface SealSubject extends SecretName {
  readonly clusterUid: string;
  readonly version: number;
}

const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;

const bound = ({ clusterUid, namespace, name, version }: SealSubject, purpose: string): Buffer =>
  Buffer.from(JSON.stringify(["holdfast secret v1", purpose, clusterUid, namespace, name, version]));

const encrypt = (key: Buffer, plain: Buffer, aad: Buffer): string => {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, key, iv, { authTagLength: tagBytes }).setAAD(aad);
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), body]).toString("base64");
};

/** undefined: it is not what was sealed for this subject with this key. */
const decrypt = (key: Buffer, sealed: string, aad: Buffer): Buffer | undefined => {
  const bytes = Buffer.from(sealed, "base64");
  if (bytes.length < ivBytes + tagBytes) return undefined;
  const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
    .setAAD(aad)
    .setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  const plain = decipher.update(bytes.subarray(ivBytes + tagBytes));
  try {
    return Buffer.concat([plain, decipher.final()]);
  } catch {
    return undefined;
  } finally {
    plain.fill(0);
  }
};

const saltBytes = 16;

/** S1: of 128 random bits beside the nonce's 96, so that no pair is ever used twice. */
const derived = (key: Buffer, salt: Buffer): Buffer => Buffer.from(hkdfSync("sha256", key, salt, "holdfast wrap", 32));

const under = <T>(key: Buffer, salt: Buffer, use: (derivedKey: Buffer) => T): T => {
  const own = derived(key, salt);
  try {
    return use(own);
  } finally {
    own.fill(0); // S3
  }
};

const wrap = (key: Buffer, own: Buffer, aad: Buffer): string => {
  const salt = randomBytes(saltBytes);
  return `${salt.toString("base64")} ${under(key, salt, (one) => encrypt(one, own, aad))}`;
};

const unwrap = (key: Buffer, wrapped: string, aad: Buffer): Buffer | undefined => {
  const [salt = "", sealed = ""] = wrapped.split(" ");
  return under(key, Buffer.from(salt, "base64"), (one) => decrypt(one, sealed, aad));
};

const sorted = (values: SecretValues): readonly (readonly [string, string])[] =>
  Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));

const bytesOf = (values: SecretValues): Buffer => Buffer.from(JSON.stringify(sorted(values)));

export const seal = (values: SecretValues, subject: SealSubject, { first }: SecretKeys): SealedValue => {
  const own = randomBytes(32); // S1
  const plain = bytesOf(values);
  try {
    return {
      key: first.id,
      wrapped: wrap(first.key, own, bound(subject, `key ${first.id}`)), // S1, S2
      body: encrypt(own, plain, bound(subject, "value")),
    };
  } finally {
    own.fill(0); // S3
    plain.fill(0);
  }
};

const ownKey = (sealed: SealedValue, subject: SealSubject, keys: SecretKeys): Buffer => {
  const key = keys.byId.get(sealed.key);
  if (key === undefined)
    throw unavailable(
      `version ${subject.version} of secret ${subject.namespace}/${subject.name} needs key ${sealed.key}, which the key file does not hold; put it back`,
    );
  return unwrap(key, sealed.wrapped, bound(subject, `key ${sealed.key}`)) ?? broken(subject);
};

const broken = ({ namespace, name, version }: SealSubject): never => {
  throw new HoldfastError({
    kind: "data_loss",
    reason: "SECRETS_UNAVAILABLE",
    message: `version ${version} of secret ${namespace}/${name} is not what was stored, or its key is another; put it anew`,
    metadata: { namespace, secret: name },
  });
};

const opened = <T>(sealed: SealedValue, subject: SealSubject, keys: SecretKeys, use: (plain: Buffer) => T): T => {
  const own = ownKey(sealed, subject, keys);
  const plain = decrypt(own, sealed.body, bound(subject, "value"));
  own.fill(0); // S3
  if (plain === undefined) return broken(subject);
  try {
    return use(plain);
  } finally {
    plain.fill(0); // S3
  }
};

export const open = (sealed: SealedValue, subject: SealSubject, keys: SecretKeys): SecretValues =>
  opened(sealed, subject, keys, (plain) => Object.freeze(Object.fromEntries(JSON.parse(plain.toString("utf8")))));

/** Whether these are the sealed values, without making texts of them. */
export const holdsSame = (sealed: SealedValue, subject: SealSubject, keys: SecretKeys, values: SecretValues): boolean =>
  opened(sealed, subject, keys, (plain) => {
    const asked = bytesOf(values);
    const same = asked.length === plain.length && timingSafeEqual(asked, plain);
    asked.fill(0);
    return same;
  });

/** The same value under the first key of the file; the value itself is not touched. */
export const rewrap = (sealed: SealedValue, subject: SealSubject, keys: SecretKeys): SealedValue => {
  if (sealed.key === keys.first.id) return sealed;
  const own = ownKey(sealed, subject, keys);
  const wrapped = wrap(keys.first.key, own, bound(subject, `key ${keys.first.id}`));
  own.fill(0);
  return { ...sealed, key: keys.first.id, wrapped };
};
