/** JSON that keeps bigint, Date, Map, Set and binary as they are: for the backend's socket and its state file. */
type Tagged =
  | { $int: string }
  | { $date: string }
  | { $map: [unknown, unknown][] }
  | { $set: unknown[] }
  | { $bytes: string };

const encodeMember = (value: unknown): unknown => {
  if (typeof value === "bigint") return { $int: value.toString() } satisfies Tagged;
  if (value instanceof Date) return { $date: value.toISOString() } satisfies Tagged;
  if (value instanceof Map) return { $map: [...value].map(([k, v]) => [k, encodeMember(v)]) } satisfies Tagged;
  if (value instanceof Set) return { $set: [...value].map(encodeMember) } satisfies Tagged;
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString("base64") } satisfies Tagged;
  if (Array.isArray(value)) return value.map(encodeMember);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, encodeMember(member)]));
  return value;
};

const decodeMember = (_: string, value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value;
  const tagged = value as Partial<Record<"$int" | "$date" | "$bytes", string>> & {
    $map?: [unknown, unknown][];
    $set?: unknown[];
  };
  if (tagged.$int !== undefined) return BigInt(tagged.$int);
  if (tagged.$date !== undefined) return new Date(tagged.$date);
  if (tagged.$map !== undefined) return new Map(tagged.$map);
  if (tagged.$set !== undefined) return new Set(tagged.$set);
  if (tagged.$bytes !== undefined) return new Uint8Array(Buffer.from(tagged.$bytes, "base64"));
  return value;
};

export const encode = (value: unknown): string => JSON.stringify(encodeMember(value));

export const decode = (text: string): unknown => JSON.parse(text, decodeMember);
