/**
 * Where secrets come from. Records hold references; a value is read for one call and kept by nobody afterwards.
 *
 * X1 No value, and no piece of one, is in an error. X2 Nothing is remembered between two calls: a corrected file counts at the next try.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { byteLength, limits } from "../domain/limits.ts";

export interface Secrets {
  /** The key-value pairs behind a reference; none for no reference. Rejects with SECRET_NOT_FOUND. */
  resolve(ref: string | undefined): Promise<Readonly<Record<string, string>>>;
}

export interface SecretsOptions {
  /** The controller's own environment, for references like `env:NAME`. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Far above the 4 KiB that CSI takes: a larger file is the wrong file. */
const maxFileBytes = 64 * 1024;

export const createSecrets = ({ env }: SecretsOptions): Secrets => ({
  async resolve(ref) {
    if (ref === undefined || ref === "") return {};
    if (ref.startsWith("file:")) return await fromFile(ref, ref.slice("file:".length));
    if (ref.startsWith("env:")) return fromVariable(ref, env[ref.slice("env:".length)]);
    throw missing(ref, 'is of a kind that is not known; use "file:/absolute/path" or "env:NAME"');
  },
});

const fromVariable = (ref: string, text: string | undefined): Readonly<Record<string, string>> => {
  if (text === undefined || text === "") throw missing(ref, "is not set in the environment of this controller");
  return checked(ref, parsed(ref, text));
};

const fromFile = async (ref: string, file: string): Promise<Readonly<Record<string, string>>> => {
  if (!path.isAbsolute(file)) throw missing(ref, "has to name an absolute path");
  const found = await look(ref, file);
  if (!found.directory) return checked(ref, parsed(ref, await read(ref, file)));
  // One file a key, as secrets are mounted into containers; names with a dot in front are the mount's own machinery.
  const names = (await readdir(file).catch(unreadable(ref))).filter((name) => !name.startsWith("."));
  const pairs: [string, string][] = [];
  for (const name of names) {
    const entry = path.join(file, name);
    if ((await look(ref, entry)).directory) continue;
    pairs.push([name, await read(ref, entry)]);
  }
  return checked(ref, Object.fromEntries(pairs));
};

const look = async (ref: string, file: string): Promise<{ readonly directory: boolean }> => {
  const found = await stat(file).catch(unreadable(ref));
  const directory = found.isDirectory();
  if (!directory && !found.isFile()) throw missing(ref, "is no regular file");
  if (!directory && found.size > maxFileBytes) throw missing(ref, `is larger than ${maxFileBytes} bytes`);
  if (!directory && (found.mode & 0o007) !== 0)
    throw missing(ref, `can be read or written by everybody on this machine; run: chmod o-rwx ${file}`);
  return { directory };
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

const checked = (ref: string, value: unknown): Readonly<Record<string, string>> => {
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
