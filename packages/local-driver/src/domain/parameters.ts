import { mountOptionProblem, mountOptionsIn } from "./mount-options.ts";
import type { FsType, VolumeType } from "./records.ts";

/** What the parameters of a volume may say; what each value must be is written once, here. */

export interface VolumeParameters {
  readonly type: VolumeType | undefined;
  readonly fsType: FsType | undefined;
  /** Of a clone: a copy of what is being written, of no single moment, is better than none. */
  readonly live: boolean;
  /** As given, without the keys that are not for us and without the mutable ones. */
  readonly fixed: Readonly<Record<string, string>>;
  readonly mutable: Readonly<Record<string, string>>;
}

/** Every violation, and the parameters as far as they could be read. */
export interface Parsed<T> {
  readonly value: T;
  readonly violations: readonly string[];
}

const volumeTypes: readonly VolumeType[] = ["directory", "image"];
const fsTypes: readonly FsType[] = ["ext4", "xfs"];

/** Put there for other eyes: by Kubernetes' sidecars, and by Holdfast. */
const foreignPrefixes: readonly string[] = ["csi.storage.k8s.io/", "holdfast.dev/"];

/** Of a value: what is wrong with it. */
type Rule = (value: string) => readonly string[];

const oneOf =
  (values: readonly string[]): Rule =>
  (value) =>
    values.includes(value) ? [] : [`is ${JSON.stringify(value)}, and may be ${values.join(" or ")}`];

const live = oneOf(["allow", "refuse"]);

const fixedRules: Readonly<Record<string, Rule>> = { type: oneOf(volumeTypes), fsType: oneOf(fsTypes), live };

const mostOfLabel = 256;
const labelKey = /^label\.[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/;

const mutableRules: Readonly<Record<string, Rule>> = {
  mountOptions: (value) =>
    mountOptionsIn(value)
      .map((option) => mountOptionProblem(option, undefined))
      .filter((problem) => problem !== undefined),
};

const labelRule: Rule = (value) =>
  value.length <= mostOfLabel ? [] : [`is ${value.length} characters long, and may be ${mostOfLabel}`];

const snapshotRules: Readonly<Record<string, Rule>> = { live };

const ruleIn = (rules: Readonly<Record<string, Rule>>, key: string): Rule | undefined =>
  Object.hasOwn(rules, key) ? rules[key] : undefined;

const mutableRule = (key: string): Rule | undefined => (labelKey.test(key) ? labelRule : ruleIn(mutableRules, key));

const known = {
  fixed: Object.keys(fixedRules).join(", "),
  mutable: [...Object.keys(mutableRules), "label.<key>"].join(", "),
  snapshot: Object.keys(snapshotRules).join(", "),
} as const;

/** Parameters and mutable parameters of CreateVolume; "they win over `parameters` where both have a key". */
export function parseParameters(
  parameters: Readonly<Record<string, string>>,
  mutableParameters: Readonly<Record<string, string>>,
): Parsed<VolumeParameters> {
  const violations: string[] = [];
  const fixed: Record<string, string> = {};
  const early: Record<string, string> = {};
  for (const [key, value] of Object.entries(parameters)) {
    if (foreignPrefixes.some((prefix) => key.startsWith(prefix))) continue;
    const rule = ruleIn(fixedRules, key) ?? mutableRule(key);
    if (rule === undefined)
      violations.push(`parameter ${JSON.stringify(key)} is unknown; there are ${known.fixed}, ${known.mutable}`);
    else {
      violations.push(...rule(value).map((problem) => `parameter ${key}: ${problem}`));
      if (ruleIn(fixedRules, key) === undefined) early[key] = value;
      else fixed[key] = value;
    }
  }
  const mutable = parseMutable(mutableParameters);
  const value: VolumeParameters = {
    type: volumeTypes.find((type) => type === fixed["type"]),
    fsType: fsTypes.find((fsType) => fsType === fixed["fsType"]),
    live: fixed["live"] === "allow",
    fixed,
    mutable: { ...early, ...mutable.value },
  };
  return { value, violations: [...violations, ...mutable.violations] };
}

export function parseMutable(
  mutableParameters: Readonly<Record<string, string>>,
): Parsed<Readonly<Record<string, string>>> {
  const violations: string[] = [];
  for (const [key, value] of Object.entries(mutableParameters)) {
    const rule = mutableRule(key);
    if (rule === undefined)
      violations.push(`mutable parameter ${JSON.stringify(key)} is unknown; there are ${known.mutable}`);
    else violations.push(...rule(value).map((problem) => `mutable parameter ${key}: ${problem}`));
  }
  return { value: mutableParameters, violations };
}

/** What a volume has after a change: "a key left out keeps its value", and an empty value takes the key away. */
export function withMutable(
  before: Readonly<Record<string, string>>,
  asked: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries({ ...before, ...asked }).filter(([, value]) => value !== ""));
}

/** Of CreateSnapshot and CreateVolumeGroupSnapshot. `live`: a picture of no single moment is better than none. */
export function parseSnapshotParameters(
  parameters: Readonly<Record<string, string>>,
): Parsed<{ readonly live: boolean; readonly own: Readonly<Record<string, string>> }> {
  const violations: string[] = [];
  const own: Record<string, string> = {};
  for (const [key, value] of Object.entries(parameters)) {
    if (foreignPrefixes.some((prefix) => key.startsWith(prefix))) continue;
    const rule = ruleIn(snapshotRules, key);
    if (rule === undefined) violations.push(`parameter ${JSON.stringify(key)} is unknown; there is ${known.snapshot}`);
    else {
      violations.push(...rule(value).map((problem) => `parameter ${key}: ${problem}`));
      own[key] = value;
    }
  }
  return { value: { live: own["live"] === "allow", own }, violations };
}
