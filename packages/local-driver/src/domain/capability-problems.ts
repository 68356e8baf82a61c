import { mountOptionProblem, mountOptionsIn } from "./mount-options.ts";
import type { Access, Capability, FsType, VolumeRecord, VolumeType } from "./records.ts";

/** What a volume is, or shall be, as far as a way of using it depends on it. */
export interface Usable {
  readonly type: VolumeType;
  /** What it carries, or surely will. */
  readonly fsType: FsType | undefined;
}

const fsTypeOf = ({ format, parameters }: VolumeRecord): FsType | undefined => {
  // An intent binds nobody: mkfs may still be run for another one.
  if (format?.finished === true) return format.fsType;
  const asked = parameters["fsType"];
  return asked === "ext4" || asked === "xfs" ? asked : undefined;
};

export const usableOf = (volume: VolumeRecord): Usable => ({ type: volume.type, fsType: fsTypeOf(volume) });

type Rule = (capability: Capability, fsType: FsType | undefined) => readonly string[];

/** Every way of using a volume × every type: what is wrong with it. */
const rules: Readonly<Record<VolumeType, Readonly<Record<Access, Rule>>>> = {
  directory: {
    block: () => ["a directory has no device: block access needs parameter type=image"],
    mount: ({ fsType, mountFlags }) => [
      ...(fsType === ""
        ? []
        : [`fs_type ${fsType}: a directory has the filesystem of the host; leave it empty, or ask for type=image`]),
      ...(mountFlags.length === 0
        ? []
        : [`mount_flags ${mountFlags.join(",")}: a directory is bound and takes none; ask for type=image`]),
    ],
  },
  image: {
    block: () => [],
    mount: ({ fsType, mountFlags }, carried) => [
      ...(fsType === "" || carried === undefined || fsType === carried
        ? []
        : [`fs_type ${fsType}: the volume is for ${carried}`]),
      ...mountFlags
        .map((option) => mountOptionProblem(option, fsType === "" ? carried : fsType))
        .filter((problem) => problem !== undefined),
    ],
  },
};

export const capabilityProblems = (capability: Capability, { type, fsType }: Usable): readonly string[] =>
  rules[type][capability.access](capability, fsType);

/** Mutable parameters that this very volume cannot have, though others can. */
export function mutableProblems(
  mutable: Readonly<Record<string, string>>,
  { type, fsType }: Usable,
): readonly string[] {
  const options = mountOptionsIn(mutable["mountOptions"] ?? "");
  if (options.length === 0) return [];
  if (type === "directory") return ["mountOptions: a directory is bound and takes none; ask for type=image"];
  return options
    .map((option) => mountOptionProblem(option, fsType))
    .filter((problem) => problem !== undefined)
    .map((problem) => `mountOptions: ${problem}`);
}
