/**
 * An edited file against the record of its volume, both as proto3 JSON. Invariants: a field that the file leaves out is left alone; one that
 * differs is changed or refused, and never passed over.
 */
import { isDeepStrictEqual } from "node:util";
import { sizeWords } from "@holdfast/model/size";

type Json = Readonly<Record<string, unknown>>;

export interface VolumeDifference {
  /** `labels.team: search -> ops`. */
  readonly lines: readonly string[];
  /** Parts that UpdateVolume replaces as a whole. */
  readonly update: Readonly<Record<string, unknown>>;
  /** It has to grow. */
  readonly grows: boolean;
  readonly mutableParameters: Readonly<Record<string, string>>;
  /** What no call can change: with the field, since its line is told. */
  readonly fixed: readonly { readonly field: string; readonly description: string }[];
}

const objectOf = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

/** Every value by its path; what is empty has none. */
const flat = (value: unknown, path: string): ReadonlyMap<string, string> => {
  if (Array.isArray(value)) return new Map(value.flatMap((item, i) => [...flat(item, `${path}[${i}]`)]));
  if (typeof value === "object" && value !== null)
    return new Map(Object.entries(value).flatMap(([key, item]) => [...flat(item, `${path}.${key}`)]));
  return value === undefined || value === null || value === "" || value === false
    ? new Map()
    : new Map([[path, String(value)]]);
};

const linesOf = (field: string, before: unknown, after: unknown): readonly string[] => {
  const [old, wanted] = [flat(before, field), flat(after, field)];
  return [...new Set([...old.keys(), ...wanted.keys()])]
    .filter((path) => old.get(path) !== wanted.get(path))
    .map((path) => `${path}: ${old.get(path) ?? "(none)"} -> ${wanted.get(path) ?? "(none)"}`);
};

/** A list without an order: what came, and what went. */
const itemLines = (field: string, before: unknown, after: unknown): readonly string[] => {
  const words = (list: unknown): readonly string[] =>
    Array.isArray(list) ? list.map((item) => [...flat(item, "").values()].join(" ")) : [];
  const [old, wanted] = [words(before), words(after)];
  return [
    ...old.filter((item) => !wanted.includes(item)).map((item) => `${field}: ${item} -> (none)`),
    ...wanted.filter((item) => !old.includes(item)).map((item) => `${field}: (none) -> ${item}`),
  ];
};

/** Words of an enum that mean the default, and the default. */
const bound = (value: unknown): unknown =>
  value === undefined || value === "VOLUME_BINDING_UNSPECIFIED" ? "VOLUME_BINDING_IMMEDIATE" : value;

const places = (value: unknown): Json => {
  const { required = [], preferred = [] } = objectOf(value);
  return { required, preferred };
};

const bytesOf = (value: unknown): bigint => BigInt(String(value ?? 0));

const growth = (wanted: Json, has: Json) => {
  const [required, limit] = [bytesOf(wanted["required_bytes"]), bytesOf(wanted["limit_bytes"])];
  const asked = bytesOf(has["required_bytes"]);
  const actual = bytesOf(has["actual_bytes"]);
  const present = actual > asked ? actual : asked;
  const grows = required > present;
  const field = "capacity.required_bytes";
  if (!grows && wanted["required_bytes"] !== undefined && required < asked)
    return {
      grows,
      lines: [],
      fixed: [{ field, description: `a volume never shrinks; it has ${sizeWords(present)}` }],
    };
  if (!grows && wanted["limit_bytes"] !== undefined && limit !== bytesOf(has["limit_bytes"]))
    return {
      grows,
      lines: [],
      fixed: [{ field: "capacity.limit_bytes", description: "changes together with growth alone; leave it as it was" }],
    };
  return { grows, lines: grows ? [`${field}: ${sizeWords(present)} -> ${sizeWords(required)}`] : [], fixed: [] };
};

/** `given`: what the file says; `request`: the same with every default; `record`: the volume. */
export const volumeDifference = (given: Json, request: Json, record: Json): VolumeDifference => {
  const lines: string[] = [];
  const update: Record<string, unknown> = {};
  const replace = (field: string, before: unknown, after: unknown): void => {
    const changed = (Array.isArray(after) ? itemLines : linesOf)(field, before, after);
    if (changed.length === 0) return;
    lines.push(...changed);
    update[field] = after;
  };
  for (const field of ["labels", "secrets", "capabilities"])
    if (given[field] !== undefined) replace(field, record[field], request[field]);
  // A policy is written whole, and its defaults are those of the record.
  if (given["policy"] !== undefined)
    replace("policy", record["policy"], { ...objectOf(record["policy"]), ...objectOf(given["policy"]) });

  const has = objectOf(record["mutable_parameters"]);
  const changed = Object.entries(objectOf(given["mutable_parameters"])).filter(([key, value]) => has[key] !== value);
  for (const [key, value] of changed)
    lines.push(`mutable_parameters.${key}: ${has[key] ?? "(none)"} -> ${String(value)}`);

  const size = growth(objectOf(given["capacity"]), objectOf(record["capacity"]));
  lines.push(...size.lines);

  const made = (field: string, before: unknown, after: unknown) =>
    given[field] === undefined || isDeepStrictEqual(before, after)
      ? []
      : [{ field, description: "is decided when a volume is made; another value needs another volume" }];
  const fixed = [
    ...size.fixed,
    ...made("plugin", record["plugin"], request["plugin"]),
    ...made("parameters", record["parameters"], request["parameters"]),
    ...made("content_source", record["content_source"], request["content_source"]),
    ...made("binding", bound(record["binding"]), bound(request["binding"])),
    ...made("topology", places(record["topology"]), places(request["topology"])),
    ...(given["inline_secrets"] === undefined
      ? []
      : [
          {
            field: "inline_secrets",
            description:
              "values never come back, so that they cannot be compared: put them by `holdfast secret put`, and refer to them in `secrets`",
          },
        ]),
  ];
  return {
    lines,
    update,
    grows: size.grows,
    mutableParameters: Object.fromEntries(changed.map(([key, value]) => [key, String(value)])),
    fixed,
  };
};
