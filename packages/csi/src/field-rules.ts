/**
 * Rules for single fields, and the way to put them together for a message. `message()` takes one rule for every field of
 * the generated type, so a field that a new version of CSI adds does not compile until somebody decided what it may hold.
 */

export interface Violation {
  /** As the specification writes it: "volume_capability.mount.mount_flags[2]". */
  readonly field: string;
  readonly description: string;
}

export type Report = (field: string, description: string) => void;
export type Rule<T> = (value: T, field: string, report: Report) => void;
export type Rules<M> = { readonly [K in keyof M]-?: Rule<M[K]> };

/** CSI, "Size Limits", in bytes. */
export const limits = {
  string: 128,
  nodeId: 256,
  map: 4096,
  mountFlags: 4096,
  /** Plugins promise to take paths of 128 bytes, and no more. */
  path: 128,
  /** Wider than the specification: a token goes back to its maker only, and cutting it off would end every listing. */
  token: 4096,
} as const;

/** Everything but tab, line feed and carriage return: what CSI bans from names. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const bannedInText = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const control = /[\u0000-\u001f\u007f-\u009f]/;

export const hasControlCharacters = (value: string): boolean => control.test(value);

export const bytesOf = (text: string): number => Buffer.byteLength(text, "utf8");

export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export function message<M extends object>(rules: Rules<M>): Rule<M> {
  const entries = Object.entries(rules).map(
    ([key, rule]) => [key as keyof M, `${snakeCase(key)}`, rule as Rule<unknown>] as const,
  );
  return (value, field, report) => {
    for (const [key, name, rule] of entries) rule(value[key], field === "" ? name : `${field}.${name}`, report);
  };
}

export const anything: Rule<unknown> = () => {};

export function required<T>(rule: Rule<T>): Rule<T | undefined> {
  return (value, field, report) => {
    if (value === undefined) report(field, "is required");
    else rule(value, field, report);
  };
}

export function optional<T>(rule: Rule<T>): Rule<T | undefined> {
  return (value, field, report) => {
    if (value !== undefined) rule(value, field, report);
  };
}

/** For strings, where protobuf cannot tell "absent" from "empty". */
export function nonEmpty(rule: Rule<string>): Rule<string> {
  return (value, field, report) => {
    if (value === "") report(field, "is required");
    else rule(value, field, report);
  };
}

export function all<T>(...rules: readonly Rule<T>[]): Rule<T> {
  return (value, field, report) => {
    for (const rule of rules) rule(value, field, report);
  };
}

export function each<T>(rule: Rule<T>): Rule<T[]> {
  return (values, field, report) => {
    values.forEach((value, index) => {
      rule(value, `${field}[${index}]`, report);
    });
  };
}

export const some: Rule<readonly unknown[]> = (values, field, report) => {
  if (values.length === 0) report(field, "needs at least one entry");
};

export const distinct: Rule<readonly string[]> = (values, field, report) => {
  if (new Set(values).size !== values.length) report(field, "names the same thing twice");
};

const atMost = (size: number, limit: number, field: string, report: Report): void => {
  if (size > limit) report(field, `has ${size} bytes, at most ${limit} are allowed`);
};

/** Any text that CSI lets through a string field. */
export const text: Rule<string> = (value, field, report) => {
  atMost(bytesOf(value), limits.string, field, report);
  if (bannedInText.test(value)) report(field, "has control characters");
};

const identifier =
  (limit: number): Rule<string> =>
  (value, field, report) => {
    atMost(bytesOf(value), limit, field, report);
    if (control.test(value)) report(field, "has control characters");
  };

/** An id that somebody else chose: opaque, but never long and never able to break a line of a log. */
export const id = identifier(limits.string);
export const nodeId = identifier(limits.nodeId);
export const token = identifier(limits.token);

/** A path that a plugin is told to use: it runs as root, so nothing about it may be open to interpretation. */
export const path: Rule<string> = (value, field, report) => {
  atMost(bytesOf(value), limits.path, field, report);
  if (!value.startsWith("/")) report(field, "must be an absolute path");
  if (control.test(value)) report(field, "has control characters");
  if (value.split("/").some((segment) => segment === ".." || segment === "."))
    report(field, 'must not have "." or ".." in it');
};

export const map: Rule<Record<string, string>> = (value, field, report) => {
  let size = 0;
  for (const [key, entry] of Object.entries(value)) {
    size += bytesOf(key) + bytesOf(entry);
    if (key === "") report(field, "has an empty key");
    if (control.test(key)) report(field, "has a key with control characters");
  }
  atMost(size, limits.map, field, report);
};

export const someEntries: Rule<Record<string, string>> = (value, field, report) => {
  if (Object.keys(value).length === 0) report(field, "needs at least one entry");
};

/** Of the identity tokens, as Kubernetes named it (KEP-5538) and drivers read it: the one key that CSI's own rule would not allow. */
export const identityTokensKey = "csi.storage.k8s.io/serviceAccount.tokens";

/** "keys ... [A-Za-z0-9-_.]" (CSI, Secrets Requirements). The key is safe to name, the value never is. */
export const secrets: Rule<Record<string, string>> = (value, field, report) => {
  map(value, field, report);
  for (const key of Object.keys(value)) {
    if (bytesOf(key) > limits.string) report(field, `has a key of more than ${limits.string} bytes`);
    else if (key !== "" && key !== identityTokensKey && !/^[A-Za-z0-9\-_.]+$/.test(key))
      report(field, "has a key outside [A-Za-z0-9-_.]");
  }
};

export const notNegative: Rule<bigint | number> = (value, field, report) => {
  if (value < 0) report(field, "must not be negative");
};

export const positive: Rule<bigint | number> = (value, field, report) => {
  if (value <= 0) report(field, "must be greater than zero");
};

/** The wire has room for times that no calendar has. */
export const moment: Rule<Date> = (value, field, report) => {
  if (Number.isNaN(value.getTime())) report(field, "is no time");
};

/** Runs one rule over one message and returns everything that is wrong with it. */
export function violationsOf<T>(rule: Rule<T>, value: T): Violation[] {
  const found: Violation[] = [];
  rule(value, "", (field, description) => found.push({ field, description }));
  return found;
}
