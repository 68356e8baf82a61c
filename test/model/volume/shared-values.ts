/**
 * Equal values as one object, so that what was worked out for one is found for the other without a look inside.
 *
 * A value that came out of `one` is found by its identity; any other is read once. No value is changed.
 */
import { canonicalText } from "../search/canonical-text.ts";

export interface SharedValues {
  /** The one object for this value; its members are shared already, or are plain. */
  one<T extends object>(value: T): T;
  idOf(value: object): number;
}

export const createSharedValues = (): SharedValues => {
  const ids = new WeakMap<object, number>();
  const byText = new Map<string, number>();
  const byMembers = new Map<string, object>();
  let count = 0;

  const idOf = (value: object): number => {
    const known = ids.get(value);
    if (known !== undefined) return known;
    const text = canonicalText(value);
    const id = byText.get(text) ?? count;
    if (id === count) count += 1;
    byText.set(text, id);
    ids.set(value, id);
    return id;
  };

  return {
    one<T extends object>(value: T): T {
      let key = Array.isArray(value) ? "[" : "{";
      for (const name in value) {
        const member: unknown = value[name];
        if (member === undefined) continue;
        key +=
          typeof member === "object" && member !== null ? `${name}@${idOf(member)},` : `${name}=${String(member)},`;
      }
      const known = byMembers.get(key);
      if (known !== undefined) return known as T;
      byMembers.set(key, value);
      return value;
    },
    idOf,
  };
};
