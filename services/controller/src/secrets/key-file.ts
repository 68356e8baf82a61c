/**
 * The keys that stored secrets are encrypted with. One a line, "<id> <32 bytes in base64>"; the first encrypts, the others only decrypt, so
 * that a new key is put on top and an old one is taken out once nothing needs it. A changed file counts at the next use.
 */
import { readFile, stat } from "node:fs/promises";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

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
  for (const [i, raw] of text.split("\n").entries()) {
    const said = raw.trim();
    if (said === "" || said.startsWith("#")) continue;
    const [, id, base64] = line.exec(said) ?? [];
    // Never the line itself: it may hold a key.
    if (id === undefined || base64 === undefined)
      throw unavailable(`line ${i + 1} of key file ${file} is not "<id> <32 bytes in base64>"; correct it`);
    const key = Buffer.from(base64, "base64");
    if (key.length !== keyBytes || byId.has(id))
      throw unavailable(
        `line ${i + 1} of key file ${file} has an id that is there already, or no key of ${keyBytes} bytes`,
      );
    byId.set(id, key);
    first ??= { id, key };
  }
  if (first === undefined) throw unavailable(`key file ${file} holds no key; add one line "<id> <32 bytes in base64>"`);
  return { first, byId };
};

export const createKeyFile = (file: string | undefined): KeyFile => {
  let known: { readonly stamp: string; readonly keys: SecretKeys } | undefined;
  return {
    async keys() {
      if (file === undefined)
        throw unavailable("no key to encrypt with is configured; set HOLDFAST_SECRET_KEYS to a key file");
      try {
        const found = await stat(file, { bigint: true });
        if ((found.mode & 0o077n) !== 0n)
          throw unavailable(`key file ${file} can be used by others than its owner; run: chmod 600 ${file}`);
        const stamp = `${found.ino} ${found.size} ${found.mtimeNs}`;
        if (known?.stamp !== stamp) known = { stamp, keys: parse(file, await readFile(file, "utf8")) };
        return known.keys;
      } catch (error) {
        if (error instanceof HoldfastError) throw error;
        const code =
          typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error";
        throw unavailable(`key file ${file} cannot be read by this controller (${code})`);
      }
    },
  };
};
