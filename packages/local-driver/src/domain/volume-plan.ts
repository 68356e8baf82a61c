import { capabilityProblems, mutableProblems } from "./capability-problems.ts";
import type { CreateVolumeInput } from "./create-volume-input.ts";
import { DriverError } from "./driver-error.ts";
import type { DriverSettings } from "./driver-settings.ts";
import { imageBytes, maximumBytes, minimumBytes, notedBytes } from "./image-size.ts";
import { parseParameters, withMutable } from "./parameters.ts";
import type { FsType, SnapshotRecord, VolumeRecord, VolumeType } from "./records.ts";

/** What a volume is made from, as far as the plan depends on it. */
export type PlanSource = Pick<SnapshotRecord | VolumeRecord, "type" | "format"> & { readonly bytes: bigint };

export interface VolumeKind {
  readonly type: VolumeType;
  /** Asked for in so many words, or carried by the source. */
  readonly fsType: FsType | undefined;
  readonly minimumBytes: bigint;
  readonly maximumBytes: bigint;
  /** The source may be copied while it is written. */
  readonly live: boolean;
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutable: Readonly<Record<string, string>>;
}

type Asked = Pick<CreateVolumeInput, "capabilities" | "parameters" | "mutableParameters">;

/** An unbounded directory: what fits into the answer. */
const mostInt64 = (1n << 63n) - 1n;

/** Which kind of volume is asked for. INVALID_ARGUMENT with all that is wrong, when there is no such kind. */
export function planKind(asked: Asked, settings: DriverSettings, source: PlanSource | undefined): VolumeKind {
  const { value, violations: unreadable } = parseParameters(asked.parameters, asked.mutableParameters);
  const violations = [...unreadable];

  const named = new Set<FsType>(
    [value.fsType, ...asked.capabilities.map(({ fsType }) => fsType)].filter(
      (each): each is FsType => each === "ext4" || each === "xfs",
    ),
  );
  if (named.size > 1) violations.push(`a volume has one filesystem, and ${[...named].join(" and ")} are asked for`);
  const carried = source?.format?.finished === true ? source.format.fsType : undefined;
  const fsType = carried ?? value.fsType ?? [...named][0];
  if (carried !== undefined && value.fsType !== undefined && value.fsType !== carried)
    violations.push(`parameter fsType: ${value.fsType}, but the source carries ${carried}`);

  const wantsImage = named.size > 0 || asked.capabilities.some(({ access }) => access === "block");
  const type = value.type ?? source?.type ?? (wantsImage ? "image" : settings.defaultType);
  if (source !== undefined && type !== source.type)
    violations.push(`parameter type: ${type}, but the source is of type ${source.type}`);
  if (!settings.types.includes(type))
    violations.push(
      `volumes of type ${type} are not offered on node ${settings.nodeId}; HOLDFAST_LOCAL_TYPES has ${settings.types.join(",")}`,
    );
  if (type === "directory" && value.fsType !== undefined)
    violations.push(`parameter fsType: a directory has the filesystem of the host; ask for type=image`);

  // A format is chosen at the first NodeStageVolume: the default, when nobody has named one.
  const usable = { type, fsType: fsType ?? settings.defaultFsType };
  asked.capabilities.forEach((capability, index) => {
    for (const problem of capabilityProblems(capability, usable))
      violations.push(`volume_capabilities[${index}]: ${problem}`);
  });
  violations.push(...mutableProblems(value.mutable, usable));
  if (violations.length > 0) throw new DriverError("INVALID_ARGUMENT", [...new Set(violations)].join("; "));

  const rawOnly = asked.capabilities.length > 0 && asked.capabilities.every(({ access }) => access === "block");
  const minimum = minimumBytes[fsType ?? (rawOnly ? "raw" : settings.defaultFsType)];
  return {
    type,
    fsType,
    minimumBytes: type === "image" ? minimum : 0n,
    maximumBytes: type === "image" ? maximumBytes : mostInt64,
    live: value.live,
    parameters: value.fixed,
    mutable: withMutable({}, value.mutable),
  };
}

/** OUT_OF_RANGE when there is no such size. */
export function planBytes(
  kind: VolumeKind,
  input: Pick<CreateVolumeInput, "capacity">,
  settings: DriverSettings,
  source: PlanSource | undefined,
): bigint {
  const bytes = source?.bytes ?? 0n;
  if (kind.type === "directory") return notedBytes(input.capacity, bytes);
  return imageBytes(input.capacity, { minimum: kind.minimumBytes, usual: settings.defaultBytes, source: bytes });
}
