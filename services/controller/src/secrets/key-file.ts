/**
 * The keys that stored secrets are encrypted with. One a line, "<id> <32 bytes in base64>"; the first encrypts, the others only decrypt, so
 * that a new key is put on top and an old one is taken out once nothing needs it. A changed file counts at the next use.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createPrivateFile, linesOf } from "./private-file.ts";

export interface SecretKeys {
  /** Encrypts. */
  readonly first: { readonly id: string; readonly key: Buffer };
  readonly byId: ReadonlyMap<string, Buffer>;
}

export interface KeyFile {
  /** Rejects with SECRETS_UNAVAILABLE when there are none to be had. */
  keys(): Promise<SecretKeys>;
}

const keyBytes = 32;
const line = /^([A-Za-z0-9._-]{1,64})\s+([A-Za-z0-9+/]{43}=)$/;

export const unavailable = (message: string): HoldfastError =>
  new HoldfastError({ kind: "precondition", reason: "SECRETS_UNAVAILABLE", message });

const parse = (file: string, text: string): SecretKeys => {
  const byId = new Map<string, Buffer>();
  let first: SecretKeys["first"] | undefined;
  for (const { at, said } of linesOf(text)) {
    const [, id, base64] = line.exec(said) ?? [];
    // Never the line itself: it may hold a key.
    if (id === undefined || base64 === undefined)
      throw unavailable(`line ${at} of key file ${file} is not "<id> <32 bytes in base64>"; correct it`);
    const key = Buffer.from(base64, "base64");
    if (key.length !== keyBytes || byId.has(id))
      throw unavailable(
        `line ${at} of key file ${file} has an id that is there already, or no key of ${keyBytes} bytes`,
      );
    byId.set(id, key);
    first ??= { id, key };
  }
  if (first === undefined) throw unavailable(`key file ${file} holds no key; add one line "<id> <32 bytes in base64>"`);
  return { first, byId };
};

export const createKeyFile = (file: string | undefined): KeyFile => {
  const { read } = createPrivateFile({
    ...{ file, parse, unavailable },
    setting: "HOLDFAST_SECRET_KEYS",
    holds: "no key to encrypt with",
  });
  return { keys: read };
};
