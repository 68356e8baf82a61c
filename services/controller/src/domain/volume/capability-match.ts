import { accessRules } from "@holdfast/model/access";
import type { VolumeCapability } from "./volume.ts";

/** The field in which what is asked for differs from what there is. */
export interface CapabilityMismatch {
  readonly field:
    | "attachment_mode"
    | "access_mode"
    | "fs_type"
    | "mount_flags"
    | "volume_mount_group"
    | "read_only"
    | "capability";
  readonly wanted: string;
  readonly has: string;
}

export type CapabilityChoice =
  | { readonly ok: true; readonly capability: VolumeCapability }
  | { readonly ok: false; readonly mismatch: CapabilityMismatch };

type Field = Exclude<CapabilityMismatch["field"], "read_only" | "capability">;

/** In the order of weight: the first difference that remains is named. Empty wishes take the volume's. */
const compared: readonly {
  readonly field: Field;
  readonly of: (c: VolumeCapability) => string;
  readonly mayBeEmpty: boolean;
}[] = [
  { field: "attachment_mode", of: (c) => c.attachmentMode, mayBeEmpty: false },
  { field: "access_mode", of: (c) => c.accessMode, mayBeEmpty: false },
  { field: "fs_type", of: (c) => c.fsType, mayBeEmpty: true },
  { field: "mount_flags", of: (c) => c.mountFlags.join(","), mayBeEmpty: true },
  { field: "volume_mount_group", of: (c) => c.volumeMountGroup, mayBeEmpty: true },
];

const wrong = (field: CapabilityMismatch["field"], wanted: string, has: string): CapabilityChoice => ({
  ok: false,
  mismatch: { field, wanted, has },
});

/** Its record was made anew, from holds that do not tell how the volume is used. */
export const noCapability = "none that anybody knows";

/** The capability that a claim gets: one that the volume has, or the first field that no capability of it meets. */
export const chooseCapability = (
  has: readonly VolumeCapability[],
  wanted: VolumeCapability | undefined,
  readOnly: boolean,
): CapabilityChoice => {
  if (has.length === 0) return wrong("capability", wanted?.accessMode ?? "none named", noCapability);
  if (wanted === undefined) {
    const [only] = has;
    if (only === undefined || has.length > 1)
      return wrong("capability", "none named", `${has.length} capabilities; name one`);
    return readable(only, readOnly);
  }
  let left = has;
  for (const { field, of, mayBeEmpty } of compared) {
    const value = of(wanted);
    if (mayBeEmpty && value === "") continue;
    const fit = left.filter((c) => of(c) === value);
    // Flags and groups may be secret to some drivers: their difference is named, not shown.
    if (fit.length === 0)
      return wrong(
        field,
        field === "mount_flags" ? "other flags" : value,
        field === "mount_flags" ? "the volume's flags" : [...new Set(left.map(of))].join(" or "),
      );
    left = fit;
  }
  const [first] = left;
  return first === undefined ? wrong("capability", "any", "none") : readable(first, readOnly);
};

/** Reader modes read: a claim that would write under one is refused instead of being made a reader in silence. */
const readable = (capability: VolumeCapability, readOnly: boolean): CapabilityChoice =>
  accessRules[capability.accessMode].writers === "none" && !readOnly
    ? wrong("read_only", "false", `true: access mode ${capability.accessMode} only reads`)
    : { ok: true, capability };
