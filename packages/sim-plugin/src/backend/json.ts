/** JSON that keeps bigint, Date, Map, Set and binary as they are: for the backend's socket and its state file. */
type Tag = "$int" | "$date" | "$bytes" | "$map" | "$set" | "$object";

const tagged = (tag: Tag, value: unknown): unknown => ({ [tag]: value });

const encodeMember = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null)
    return typeof value === "bigint" ? tagged("$int", value.toString()) : value;
  if (value instanceof Date) return tagged("$date", value.toISOString());
  if (value instanceof Uint8Array) return tagged("$bytes", Buffer.from(value).toString("base64"));
  if (value instanceof Map) return tagged("$map", encodeEntries([...value]));
  if (value instanceof Set) return tagged("$set", [...value].map(encodeMember));
  if (Array.isArray(value)) return value.map(encodeMember);
  const entries = Object.entries(value);
  // A caller's own key may look like a tag.
  if (entries.some(([name]) => name.startsWith("$"))) return tagged("$object", encodeEntries(entries));
  return Object.fromEntries(entries.map(([name, member]) => [name, encodeMember(member)]));
};

const encodeEntries = (entries: readonly [unknown, unknown][]): unknown =>
  entries.map(([name, member]) => [encodeMember(name), encodeMember(member)]);

const decoders: { readonly [T in Tag]: (value: unknown) => unknown } = {
  $int: (value) => BigInt(String(value)),
  $date: (value) => new Date(String(value)),
  $bytes: (value) => new Uint8Array(Buffer.from(String(value), "base64")),
  $map: (value) => new Map(value as [unknown, unknown][]),
  $set: (value) => new Set(value as unknown[]),
  $object: (value) => Object.fromEntries(value as [string, unknown][]),
};

const isTag = (name: string | undefined): name is Tag => name !== undefined && Object.hasOwn(decoders, name);

const decodeMember = (_: string, value: unknown): unknown => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const [first, ...others] = Object.entries(value);
  return first !== undefined && others.length === 0 && isTag(first[0]) ? decoders[first[0]](first[1]) : value;
};

export const encode = (value: unknown): string => JSON.stringify(encodeMember(value));

export const decode = (text: string): unknown => JSON.parse(text, decodeMember);
