/**
 * Reads JSON values strictly: what is missing, of another type, out of range or unknown is named, each with its path, and all of it at
 * once. A reader of T is a table over the fields of T, so a field that the type has and the table has not does not compile.
 */

/** Undefined: something was wrong, and stands in `wrong`. */
export type Reader<T> = (value: unknown, at: string, wrong: string[]) => { readonly value: T } | undefined;

type Shape<T> = { readonly [K in keyof T]-?: Reader<T[K]> };

export function objectOf<T extends object>(shape: Shape<T>): Reader<T> {
  const readers = Object.entries(shape) as [string, Reader<unknown>][];
  const known = new Set(readers.map(([key]) => key));
  return (value, at, wrong) => {
    if (!isObject(value)) return refuse(wrong, at, "an object", value);
    const before = wrong.length;
    for (const key of Object.keys(value)) if (!known.has(key)) wrong.push(`${at}.${key}: unknown`);
    const read = readers.map(([key, reader]) => [key, reader(own(value, key), `${at}.${key}`, wrong)?.value]);
    return wrong.length > before ? undefined : { value: Object.freeze(Object.fromEntries(read)) as T };
  };
}

export function listOf<T>(item: Reader<T>): Reader<readonly T[]> {
  return (value, at, wrong) => {
    if (!Array.isArray(value)) return refuse(wrong, at, "a list", value);
    const before = wrong.length;
    const read = value.map((each: unknown, index) => item(each, `${at}[${index}]`, wrong));
    if (wrong.length > before) return undefined;
    return { value: Object.freeze(read.flatMap((each) => (each === undefined ? [] : [each.value]))) };
  };
}

export const stringMap: Reader<Readonly<Record<string, string>>> = (value, at, wrong) => {
  if (!isObject(value)) return refuse(wrong, at, "an object", value);
  const before = wrong.length;
  for (const [key, each] of Object.entries(value)) text(each, `${at}[${JSON.stringify(key)}]`, wrong);
  // A copy by entries: a key like __proto__ stays what it is.
  return wrong.length > before
    ? undefined
    : { value: Object.freeze(Object.fromEntries(Object.entries(value)) as Record<string, string>) };
};

/** Left out of the file when it is undefined; null is no way to say so. */
export function optional<T>(reader: Reader<T>): Reader<T | undefined> {
  return (value, at, wrong) => (value === undefined ? { value: undefined } : reader(value, at, wrong));
}

export const text: Reader<string> = (value, at, wrong) =>
  typeof value === "string" ? { value } : refuse(wrong, at, "a string", value);

export function textLike(pattern: RegExp, what: string): Reader<string> {
  return (value, at, wrong) =>
    typeof value === "string" && pattern.test(value) ? { value } : refuse(wrong, at, what, value);
}

export const flag: Reader<boolean> = (value, at, wrong) =>
  typeof value === "boolean" ? { value } : refuse(wrong, at, "true or false", value);

export function oneOf<const T extends string>(...allowed: readonly T[]): Reader<T> {
  const what = `one of ${allowed.map((each) => JSON.stringify(each)).join(", ")}`;
  return (value, at, wrong) => {
    const found = allowed.find((each) => each === value);
    return found === undefined ? refuse(wrong, at, what, value) : { value: found };
  };
}

const largestInt64 = 2n ** 63n - 1n;

/** Decimal, as JSON numbers lose digits above 2^53. */
export const byteCount: Reader<bigint> = (value, at, wrong) => {
  const digits = typeof value === "string" && /^(0|[1-9]\d{0,18})$/.test(value) ? BigInt(value) : undefined;
  return digits === undefined || digits > largestInt64
    ? refuse(wrong, at, "a number of bytes, as a decimal string", value)
    : { value: digits };
};

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const own = (value: Readonly<Record<string, unknown>>, key: string): unknown =>
  Object.hasOwn(value, key) ? value[key] : undefined;

function refuse(wrong: string[], at: string, wanted: string, value: unknown): undefined {
  const found = value === undefined ? "nothing" : `${JSON.stringify(value)}`.slice(0, 80);
  wrong.push(`${at}: has to be ${wanted}, and is ${found}`);
  return undefined;
}
