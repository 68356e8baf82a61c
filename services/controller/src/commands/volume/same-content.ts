import { createHash } from "node:crypto";
import type { CreateVolumeInput } from "../model.ts";

/** Fields with their values, in the order in which a difference is named. */
export type Content = readonly (readonly [field: string, value: unknown])[];

export const sorted = (map: object) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));

type Common = Pick<
  CreateVolumeInput,
  "plugin" | "capabilities" | "parameters" | "mutableParameters" | "secretRefs" | "labels" | "policy"
> & { readonly capacity: { readonly required: number; readonly limit: number } };

/** What created and registered volumes have in common. */
export const commonContent = (v: Common): Content => [
  ["plugin", v.plugin],
  ["capacity.required_bytes", v.capacity.required],
  ["capacity.limit_bytes", v.capacity.limit],
  ["capabilities", v.capabilities],
  ["parameters", sorted(v.parameters)],
  ["mutable_parameters", sorted(v.mutableParameters)],
  ["secrets", sorted(v.secretRefs)],
  ["labels", sorted(v.labels)],
  ["policy", v.policy],
];

/** Told from another request's by this; short, as every volume carries one. */
export const digestOf = (asked: Content): string =>
  createHash("sha256").update(JSON.stringify(asked)).digest("base64url").slice(0, 16);

/** The field that makes a repeated request another one. */
export const firstDifference = (asked: Content, has: Content): string | undefined =>
  asked.find(([, value], i) => JSON.stringify(value) !== JSON.stringify(has[i]?.[1]))?.[0];
