/**
 * A spec document against the message of the API that it becomes: the descriptors are the schema, so a new field of the
 * API is a new field of the file. Friendlier than proto3 JSON in three things: sizes as `10GiB`, durations as `5m`, and
 * enum words without their prefix in any case.
 */
import { type DescEnum, type DescField, type DescMessage, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { parseSize } from "@holdfast/model/size";
import { parseDuration } from "@holdfast/shared/config/setting";
import { isMap, isScalar, isSeq, type Node } from "yaml";
import { integerIn, integerRange } from "./integer-range.ts";
import type { SpecDocument } from "./spec-document.ts";
import type { SpecViolation } from "./spec-violation.ts";

export interface CheckedSpec {
  readonly json: Readonly<Record<string, JsonValue>>;
  readonly violations: readonly SpecViolation[];
}

type Tell = (node: Node | null, field: string, rule: string) => undefined;

/** An escape such as \ud800 alone: no text can hold it. */
const halfLetter = "has half of a letter: an escape \\ud800 to \\udfff without its other half";

const nearest = (word: string, known: readonly string[]): string => {
  const close = known.filter((name) => name.startsWith(word.slice(0, 3)) || name.includes(word));
  return `there are ${(close.length > 0 ? close : known).join(", ")}`;
};

const enumValue = (desc: DescEnum, node: Node, field: string, tell: Tell): JsonValue | undefined => {
  const text = isScalar(node) ? String(node.value) : "";
  const names = desc.values.filter(({ number }) => number !== 0).map(({ name }) => name);
  const prefix = desc.sharedPrefix?.toUpperCase() ?? "";
  const wanted = text.toUpperCase().replaceAll("-", "_");
  const found = names.find((name) => name === wanted || name === `${prefix}${wanted}`);
  if (found !== undefined) return found;
  const words = names.map((name) => name.slice(prefix.length).toLowerCase().replaceAll("_", "-"));
  return tell(node, field, `${JSON.stringify(text)} is none of ${words.join(", ")}`);
};

const scalarValue = (type: ScalarType, name: string, node: Node, field: string, tell: Tell): JsonValue | undefined => {
  if (!isScalar(node)) return tell(node, field, "has to be a single value");
  const { value } = node;
  if (type === ScalarType.BOOL)
    return typeof value === "boolean" ? value : tell(node, field, "has to be true or false");
  const range = integerRange(type);
  if (range !== undefined) {
    const given = integerIn(value, node.source);
    const found = name.endsWith("_bytes") ? parseSize(String(given ?? value)) : given;
    if (found === undefined) {
      const hint = name.endsWith("_bytes") ? "a size such as 10GiB, or a whole number of bytes" : "a whole number";
      return tell(node, field, `has to be ${hint}, not ${JSON.stringify(value)}`);
    }
    return found < range.least || found > range.most
      ? tell(node, field, `has to be ${range.least} to ${range.most}, not ${found}`)
      : found.toString();
  }
  // What YAML takes for a number or a truth was meant as text here: `zone: 1`, `on: true`.
  if (typeof value === "string") return value.isWellFormed() ? value : tell(node, field, halfLetter);
  if (typeof value === "number" || typeof value === "boolean") return node.source ?? String(value);
  return tell(node, field, "has to be text");
};

const messageValue = (desc: DescMessage, node: Node, field: string, tell: Tell): JsonValue | undefined => {
  if (desc.typeName === "google.protobuf.Duration") {
    const ms = isScalar(node) ? parseDuration(String(node.value)) : undefined;
    return ms === undefined ? tell(node, field, "has to be a duration such as 30s, 5m or 1h30m") : `${ms / 1_000}s`;
  }
  return objectOf(desc, node, field, tell, new Set());
};

const single = (desc: DescField, node: Node, field: string, tell: Tell): JsonValue | undefined => {
  if (desc.enum !== undefined) return enumValue(desc.enum, node, field, tell);
  if (desc.message !== undefined) return messageValue(desc.message, node, field, tell);
  return scalarValue(desc.scalar ?? ScalarType.STRING, desc.name, node, field, tell);
};

const mapValue = (desc: DescField & { fieldKind: "map" }, node: Node, field: string, tell: Tell) => {
  if (!isMap(node)) return tell(node, field, "has to be a map of names to values");
  const entries = node.items.flatMap(({ key, value }) => {
    const name = isScalar(key) ? String(key.value) : "";
    if (value === null) return [];
    if (!name.isWellFormed()) return tell(key as Node, field, halfLetter) ?? [];
    const item =
      desc.mapKind === "message"
        ? messageValue(desc.message, value as Node, `${field}.${name}`, tell)
        : scalarValue(desc.scalar ?? ScalarType.STRING, name, value as Node, `${field}.${name}`, tell);
    return item === undefined ? [] : [[name, item] as const];
  });
  return Object.fromEntries(entries);
};

const fieldValue = (desc: DescField, node: Node, field: string, tell: Tell): JsonValue | undefined => {
  if (desc.fieldKind === "map") return mapValue(desc, node, field, tell);
  if (desc.fieldKind !== "list") return single(desc, node, field, tell);
  if (!isSeq(node)) return tell(node, field, "has to be a list");
  return node.items.flatMap((item, i) => {
    const value = single(desc, item as Node, `${field}[${i}]`, tell);
    return value === undefined ? [] : [value];
  });
};

const objectOf = (
  desc: DescMessage,
  node: Node | null,
  path: string,
  tell: Tell,
  hidden: ReadonlySet<string>,
): Readonly<Record<string, JsonValue>> => {
  if (!isMap(node)) {
    tell(node, path, `has to be a map with the fields of ${desc.name}`);
    return {};
  }
  const known = desc.fields.filter(({ name }) => !hidden.has(name));
  const chosen = new Map<string, string>();
  const entries = node.items.flatMap(({ key, value }) => {
    const name = isScalar(key) ? String(key.value) : "";
    const field = path === "" ? name : `${path}.${name}`;
    const found = known.find((candidate) => candidate.name === name);
    if (found === undefined) {
      tell(
        key as Node,
        field,
        `there is no such field; ${nearest(
          name,
          known.map((candidate) => candidate.name),
        )}`,
      );
      return [];
    }
    const other = found.oneof === undefined ? undefined : chosen.get(found.oneof.name);
    if (other !== undefined) tell(key as Node, field, `cannot stand beside ${other}: give one of the two`);
    if (found.oneof !== undefined) chosen.set(found.oneof.name, name);
    if (value === null || (isScalar(value) && value.value === null)) return [];
    const json = fieldValue(found, value as Node, field, tell);
    return json === undefined ? [] : [[name, json] as const];
  });
  return Object.fromEntries(entries);
};

/** Every mistake at once. `hidden`: fields of the request that are no part of a file. */
export const checkSpec = (document: SpecDocument, desc: DescMessage, hidden: readonly string[]): CheckedSpec => {
  if (document.mistakes.length > 0) return { json: {}, violations: document.mistakes };
  const violations: SpecViolation[] = [];
  const tell: Tell = (node, field, rule) => {
    violations.push({ ...document.placeOf(node), field, rule });
    return undefined;
  };
  const json = objectOf(desc, document.root, "", tell, new Set(hidden));
  return { json, violations };
};
