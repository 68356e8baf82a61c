import { createHash } from "node:crypto";

/**
 * How the plugin names what it makes. Ids follow from names, so a replay after any loss of memory finds the same id.
 * "odd" ids carry what real drivers have been seen to put there (`=`, `&`, `/..`): a caller must treat ids as opaque.
 */
export type IdStyle = "hash" | "name" | "odd";

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

export type IdKind = "vol" | "snap" | "group";

export const idOf = (kind: IdKind, name: string, style: IdStyle): string => {
  if (style === "name") return name;
  const short = digest(`${kind}\0${name}`).slice(0, 16);
  return style === "hash" ? `${kind}-${short}` : `${kind}=/../${short}&x=1`;
};

/** Equal for equal values whatever the order of keys; undefined members do not count. */
export const hashOf = (value: unknown): string => digest(canonical(value)).slice(0, 24);

const canonical = (value: unknown): string => {
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
};

export const sameValue = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b);
