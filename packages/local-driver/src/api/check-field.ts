/**
 * What a field of a request may hold, and how all that is wrong with one is said at once. `form()` takes one check for every field of
 * the generated type: a field that a newer CSI adds does not compile until somebody decided about it. Values are never repeated in
 * what is said: maps and flags may hold credentials.
 */

export interface Violation {
  /** As the specification writes it: `volume_capabilities[0].access_mode.mode`. */
  readonly field: string;
  readonly description: string;
}

export type Tell = (field: string, description: string) => void;
export type Check<T> = (value: T, field: string, tell: Tell) => void;

/** CSI, "Size Limits", in bytes. */
const stringBytes = 128;
const nodeIdBytes = 256;
const mapBytes = 4096;
const flagsBytes = 4096;
/** "Plugins SHOULD support paths of at least 128 bytes": ours takes what the kernel takes. */
const pathBytes = 4095;

// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const control = /[\u0000-\u001f\u007f-\u009f]/;
/** Names may have tab, line feed and carriage return. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const controlButBreaks = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

const bytes = (text: string): number => Buffer.byteLength(text, "utf8");

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export const inner = (field: string, name: string): string => (field === "" ? name : `${field}.${name}`);

export const form = <M extends object>(checks: { readonly [K in keyof M]-?: Check<M[K]> }): Check<M> => {
  const fields = (Object.keys(checks) as (keyof M & string)[]).map((key) => ({ key, name: snake(key) }));
  return (message, field, tell) => {
    for (const { key, name } of fields) checks[key](message[key], inner(field, name), tell);
  };
};

export const anything: Check<unknown> = () => {};

/** There, and as protobuf cannot tell the two apart for strings and lists: not empty. */
export const required =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value, field, tell) => {
    if (value === undefined || value === "") tell(field, "is required");
    else if (Array.isArray(value) && value.length === 0) tell(field, "needs one entry at least");
    else check(value, field, tell);
  };

export const optional =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value, field, tell) => {
    if (value !== undefined && value !== "") check(value, field, tell);
  };

export const every =
  <T>(check: Check<T>): Check<readonly T[]> =>
  (values, field, tell) => {
    values.forEach((value, at) => {
      check(value, `${field}[${at}]`, tell);
    });
  };

export const distinct: Check<readonly string[]> = (values, field, tell) => {
  if (new Set(values).size < values.length) tell(field, "names the same thing twice");
};

export const both =
  <T>(...checks: readonly Check<T>[]): Check<T> =>
  (value, field, tell) => {
    for (const check of checks) check(value, field, tell);
  };

const limited =
  (limit: number, banned: RegExp): Check<string> =>
  (value, field, tell) => {
    const size = bytes(value);
    if (size > limit) tell(field, `has ${size} bytes, ${limit} are allowed`);
    if (banned.test(value)) tell(field, "has control characters");
  };

export const name: Check<string> = limited(stringBytes, controlButBreaks);
export const word: Check<string> = limited(stringBytes, control);
export const nodeId: Check<string> = limited(nodeIdBytes, control);

/** An id of ours is a UUID. Whatever else comes is only looked up, yet nothing that could climb in a path gets that far. */
export const id: Check<string> = both(word, (value, field, tell) => {
  if (value.includes("/") || value === "." || value === "..") tell(field, "is no id of this driver");
});

export const lookedUpPath: Check<string> = limited(pathBytes, control);

/** A path at which something will be made or removed: nothing about it may be open to interpretation. */
export const path: Check<string> = both(lookedUpPath, (value, field, tell) => {
  if (!value.startsWith("/")) tell(field, "has to be an absolute path");
  else if (/^\/+$/.test(value)) tell(field, "may not be the root directory");
  if (value.split("/").some((part) => part === "." || part === "..")) tell(field, 'may not have "." or ".." in it');
});

export const map: Check<Readonly<Record<string, string>>> = (value, field, tell) => {
  let size = 0;
  for (const [key, entry] of Object.entries(value)) {
    size += bytes(key) + bytes(entry);
    if (key === "") tell(field, "has an empty key");
    if (control.test(key)) tell(field, "has a key with control characters");
  }
  if (size > mapBytes) tell(field, `has ${size} bytes in all, ${mapBytes} are allowed`);
};

export const someEntries: Check<Readonly<Record<string, string>>> = (value, field, tell) => {
  if (Object.keys(value).length === 0) tell(field, "needs one entry at least");
};

export const flags: Check<readonly string[]> = (values, field, tell) => {
  const size = values.reduce((sum, flag) => sum + bytes(flag), 0);
  if (size > flagsBytes) tell(field, `has ${size} bytes in all, ${flagsBytes} are allowed`);
  values.forEach((flag, at) => {
    if (flag === "") tell(`${field}[${at}]`, "is empty");
    else if (control.test(flag)) tell(`${field}[${at}]`, "has control characters");
  });
};

export const notNegative: Check<bigint | number> = (value, field, tell) => {
  if (value < 0) tell(field, "may not be negative");
};

export const violationsOf = <T>(check: Check<T>, value: T, field = ""): readonly Violation[] => {
  const found: Violation[] = [];
  check(value, field, (where, description) => found.push({ field: where, description }));
  return found;
};
