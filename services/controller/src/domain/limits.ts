/** The bounds of what callers may send: ids, sizes, shapes. Each check answers every violation it finds. */
import { holdsControl } from "@holdfast/model/control-characters";
import { workloadIdFault } from "@holdfast/model/workload-id";
import { parseSecretRef } from "./secret/secret.ts";
import type { SecretGrants } from "./secret/secret-scope.ts";
import type { VolumeCapability } from "./volume/volume.ts";

export interface Violation {
  readonly field: string;
  readonly description: string;
}

export const limits = {
  stringBytes: 128,
  mapBytes: 4096,
  mountFlagBytes: 4096,
  setMembers: 64,
  capabilities: 64,
  topologies: 256,
  queueMs: 7 * 24 * 3_600_000,
  defaultQueueMs: 3_600_000,
  pageSize: 500,
  /** Half of what the store takes for one record: new claims stop here, so that those that are there can always go on. */
  volumeBytes: 512 * 1024,
} as const;

export const idPattern = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const fsTypePattern = /^[a-z0-9._-]{1,16}$/;
/** As CSI names plugins: reverse domain name, at most 63 characters. */
const pluginPattern = /^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$/;
/** Secrets that came with a volume or a snapshot are named after it: "volume." and its id. */
const secretNamePattern = /^[a-z0-9]([a-z0-9._-]{0,71}[a-z0-9])?$/;

const violation = (field: string, description: string): Violation => ({ field, description });

/** UTF-8 length without an encoder: the domain knows no platform. */
export const byteLength = (text: string): number => {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
};

export const checkControl = (field: string, text: string): readonly Violation[] =>
  holdsControl(text) ? [violation(field, "must not hold control characters")] : [];

export const checkId = (field: string, id: string): readonly Violation[] => {
  if (id === "") return [violation(field, "is required")];
  if (id.includes("..")) return [violation(field, 'must not hold ".."')];
  return idPattern.test(id)
    ? []
    : [violation(field, "must be 1 to 64 of a-z, 0-9, '.', '_', '-', and begin and end with a letter or digit")];
};

export const checkOptionalId = (field: string, id: string): readonly Violation[] =>
  id === "" ? [] : checkId(field, id);

/** The scheduler's own word. */
export const checkWorkload = (field: string, workload: string): readonly Violation[] => {
  const fault = workloadIdFault(workload);
  return fault === undefined ? [] : [violation(field, fault)];
};

export const checkPlugin = (field: string, plugin: string): readonly Violation[] => {
  if (plugin === "") return [violation(field, "is required")];
  return pluginPattern.test(plugin)
    ? []
    : [violation(field, "must be a driver's name: at most 63 of letters, digits, '.', '_', '-'")];
};

export const checkString = (field: string, text: string): readonly Violation[] => [
  ...(byteLength(text) > limits.stringBytes ? [violation(field, `is longer than ${limits.stringBytes} bytes`)] : []),
  ...checkControl(field, text),
];

export const checkRequired = (field: string, text: string): readonly Violation[] =>
  text === "" ? [violation(field, "is required")] : checkString(field, text);

/** Keys and values together stay within 4 KiB, as CSI bounds its maps. */
export const checkMap = (field: string, map: Readonly<Record<string, string>>): readonly Violation[] => {
  const entries = Object.entries(map);
  const bytes = entries.reduce((sum, [k, v]) => sum + byteLength(k) + byteLength(v), 0);
  return [
    ...(bytes > limits.mapBytes ? [violation(field, `holds ${bytes} bytes; the most is ${limits.mapBytes}`)] : []),
    ...(entries.some(([k]) => k === "") ? [violation(field, "must not have an empty key")] : []),
  ];
};

/** CSI bounds keys and values of topology segments like its other strings. */
export const checkSegments = (field: string, segments: Readonly<Record<string, string>>): readonly Violation[] => {
  const entries = Object.entries(segments);
  if (entries.length === 0) return [violation(field, "must name at least one segment")];
  return entries.flatMap(([k, v]) => [
    ...(k === "" ? [violation(field, "must not have an empty key")] : checkString(`${field}[${k.slice(0, 32)}]`, k)),
    ...(v === ""
      ? [violation(`${field}[${k.slice(0, 32)}]`, "must not be empty")]
      : checkString(`${field}[${k.slice(0, 32)}]`, v)),
  ]);
};

const checkRefForm = (field: string, ref: string): readonly Violation[] =>
  parseSecretRef(ref) !== undefined && byteLength(ref) <= 512 && !holdsControl(ref)
    ? []
    : [
        violation(
          field,
          'must be "file:root/key", "env:NAME", "secret:name" or "vault:mount/path", the last two with "@version" if wanted',
        ),
      ];

/** A root that is not there and one of another namespace read alike. Nothing is looked at: this says nothing of files that are there. */
export const checkSecretRef = (
  field: string,
  ref: string,
  namespace: string,
  granted: SecretGrants,
): readonly Violation[] => {
  const wrong = checkRefForm(field, ref);
  if (wrong.length > 0 || granted(namespace, ref)) return wrong;
  return [violation(field, `names no secret that this controller's settings grant to namespace ${namespace}`)];
};

export const checkSecretName = (field: string, name: string): readonly Violation[] => {
  if (name === "") return [violation(field, "is required")];
  return secretNamePattern.test(name) && !name.includes("..")
    ? []
    : [violation(field, "must be 1 to 73 of a-z, 0-9, '.', '_', '-', without \"..\", between letters or digits")];
};

/** Of secrets not even a part of a key is repeated. */
export const checkSecretValues = (field: string, values: Readonly<Record<string, string>>): readonly Violation[] => [
  ...(Object.keys(values).length === 0 ? [violation(field, "must hold at least one value")] : []),
  ...checkMap(field, values),
  ...(Object.keys(values).some((key) => byteLength(key) > limits.stringBytes)
    ? [violation(field, `must not have a key of more than ${limits.stringBytes} bytes`)]
    : []),
];

export const checkBytes = (field: string, value: number): readonly Violation[] =>
  Number.isSafeInteger(value) && value >= 0 ? [] : [violation(field, "must be 0 to 9007199254740991 bytes")];

export const checkCapacity = (
  field: string,
  capacity: { readonly required: number; readonly limit: number },
): readonly Violation[] => [
  ...checkBytes(`${field}.required_bytes`, capacity.required),
  ...checkBytes(`${field}.limit_bytes`, capacity.limit),
  ...(capacity.limit > 0 && capacity.limit < capacity.required
    ? [violation(`${field}.limit_bytes`, "must not be below required_bytes")]
    : []),
];

export const checkCapability = (field: string, capability: VolumeCapability): readonly Violation[] => {
  const { accessMode, attachmentMode, fsType, mountFlags, volumeMountGroup } = capability;
  const found: Violation[] = [];
  if (accessMode === "UNKNOWN") found.push(violation(`${field}.access_mode`, "is required"));
  if (attachmentMode === "BLOCK_DEVICE") {
    if (fsType !== "") found.push(violation(`${field}.fs_type`, "must be empty for a block device"));
    if (mountFlags.length > 0) found.push(violation(`${field}.mount_flags`, "must be empty for a block device"));
    if (volumeMountGroup !== "")
      found.push(violation(`${field}.volume_mount_group`, "must be empty for a block device"));
    return found;
  }
  if (fsType !== "" && !fsTypePattern.test(fsType))
    found.push(violation(`${field}.fs_type`, "must be 1 to 16 of a-z, 0-9, '.', '_', '-'"));
  const flagBytes = mountFlags.reduce((sum, flag) => sum + byteLength(flag), 0);
  if (flagBytes > limits.mountFlagBytes)
    found.push(violation(`${field}.mount_flags`, `hold ${flagBytes} bytes; the most is ${limits.mountFlagBytes}`));
  if (mountFlags.some((flag) => flag === "" || holdsControl(flag)))
    found.push(violation(`${field}.mount_flags`, "must not be empty or hold control characters"));
  return [...found, ...checkString(`${field}.volume_mount_group`, volumeMountGroup)];
};
