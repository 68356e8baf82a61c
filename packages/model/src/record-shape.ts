/** What has to be in a record before anything is decided from it. Fields that are not named here may be anything, and may be missing. */
import { accessModes } from "./access.ts";

/** What is wrong with the value, from the first fault on: `epoch.ctr is "x", not a whole number`. */
export type Shape = (value: unknown, path: string) => string | undefined;

const shown = (value: unknown): string => {
  if (value === undefined) return "is missing";
  const text = JSON.stringify(value) ?? typeof value;
  return `is ${text.length > 40 ? `${text.slice(0, 40)}…` : text}`;
};

const plain =
  (fits: (value: unknown) => boolean, name: string): Shape =>
  (value, path) =>
    fits(value) ? undefined : `${path} ${shown(value)}, not ${name}`;

export const text: Shape = plain((value) => typeof value === "string", "a text");
export const filled: Shape = plain(
  (value) => typeof value === "string" && value !== "",
  "a text of one letter or more",
);
export const flag: Shape = plain((value) => typeof value === "boolean", "true or false");
/** A counter: a revision, an epoch, a generation. */
export const count: Shape = plain((value) => Number.isSafeInteger(value) && Number(value) >= 0, "a whole number");
/** Milliseconds that a calendar has: of any other no message can be made. */
export const time: Shape = plain((value) => typeof value === "number" && Math.abs(value) <= 8.64e15, "a time");
/** Of bytes or of things, as a plugin told it: it may be more than a counter can count. */
export const size: Shape = plain((value) => Number.isInteger(value) && Number(value) >= 0, "a size");

export const oneOf = (...words: readonly string[]): Shape =>
  plain((value) => typeof value === "string" && words.includes(value), `one of ${words.join(", ")}`);

export const optional =
  (shape: Shape): Shape =>
  (value, path) =>
    value === undefined ? undefined : shape(value, path);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const below = (path: string, key: string | number): string => (path === "" ? String(key) : `${path}.${key}`);

const firstOf = (entries: readonly (readonly [string | number, unknown])[], path: string, of: Shape) => {
  for (const [key, value] of entries) {
    const fault = of(value, below(path, key));
    if (fault !== undefined) return fault;
  }
  return undefined;
};

const named = (path: string): string => (path === "" ? "it" : path);

export const listOf =
  (of: Shape): Shape =>
  (value, path) =>
    Array.isArray(value) ? firstOf([...value.entries()], path, of) : `${named(path)} ${shown(value)}, not a list`;

export const mapOf =
  (of: Shape): Shape =>
  (value, path) =>
    isObject(value) ? firstOf(Object.entries(value), path, of) : `${named(path)} ${shown(value)}, not an object`;

export const shaped =
  (fields: Readonly<Record<string, Shape>>): Shape =>
  (value, path) => {
    if (!isObject(value)) return `${named(path)} ${shown(value)}, not an object`;
    for (const [key, of] of Object.entries(fields)) {
      const fault = of(value[key], below(path, key));
      if (fault !== undefined) return fault;
    }
    return undefined;
  };

export const epoch: Shape = shaped({ gen: count, ctr: count });
export const accessMode: Shape = oneOf(...accessModes);
export const attachmentMode: Shape = oneOf("FILE_SYSTEM", "BLOCK_DEVICE");
