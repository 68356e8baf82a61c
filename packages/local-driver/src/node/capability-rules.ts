import { capabilityProblems } from "../domain/capability-problems.ts";
import { mountOptionProblem, mountOptionsIn } from "../domain/mount-options.ts";
import type { Attachment, Capability, FsType, Publication, Staging, VolumeRecord } from "../domain/records.ts";
import { type DriverSettings, readsOnly } from "../operations.ts";

const settledFsType = ({ format, parameters }: VolumeRecord): FsType | undefined => {
  // An intent binds nobody: nothing was written under it but by mkfs.
  if (format?.finished) return format.fsType;
  const made = parameters["fsType"];
  return made === "ext4" || made === "xfs" ? made : undefined;
};

/** What a volume has settled already wins; then what is asked, then what the driver has for all. */
export const fsTypeOf = (record: VolumeRecord, capability: Capability, { defaultFsType }: DriverSettings): FsType =>
  settledFsType(record) ?? (capability.fsType === "" ? defaultFsType : capability.fsType);

export const attachmentHere = (record: VolumeRecord, { nodeId }: DriverSettings): Attachment | undefined =>
  record.attachments.find((attachment) => attachment.nodeId === nodeId);

/** A volume attached for reading is mounted for reading, whatever its capability would allow. */
export const stagesReadonly = (record: VolumeRecord, capability: Capability, settings: DriverSettings): boolean =>
  readsOnly(capability.mode) || attachmentHere(record, settings)?.readonly === true;

/** Of the volume first, then of the capability; each once. */
export const mountOptions = (record: VolumeRecord, capability: Capability, readonly: boolean): readonly string[] => [
  ...new Set([
    ...(readonly ? ["ro"] : []),
    ...mountOptionsIn(record.mutable["mountOptions"] ?? ""),
    ...capability.mountFlags,
  ]),
];

/** Why this volume cannot be used so; undefined when it can. */
export function useProblem(
  record: VolumeRecord,
  capability: Capability,
  settings: DriverSettings,
): { readonly code: "INVALID_ARGUMENT" | "FAILED_PRECONDITION"; readonly text: string } | undefined {
  const unknown = capability.mountFlags
    .map((option) => mountOptionProblem(option, undefined))
    .filter((problem) => problem !== undefined);
  const found = [...capabilityProblems(capability, { type: record.type, fsType: settledFsType(record) })];
  if (record.type === "image" && !settings.types.includes("image"))
    found.push("it is of type image, and this node offers directories only; images need root and loop devices");
  if (settings.attach && attachmentHere(record, settings) === undefined)
    found.push("it is not attached to this node; call ControllerPublishVolume first");
  if (found.length === 0) return undefined;
  // "Exceeds capabilities: 9 FAILED_PRECONDITION"
  return { code: unknown.length > 0 ? "INVALID_ARGUMENT" : "FAILED_PRECONDITION", text: found.join("; ") };
}

const sameFlags = (a: readonly string[], b: readonly string[]): boolean =>
  [...new Set(a)].sort().join() === [...new Set(b)].sort().join();

/** What differs between two ways of using one volume; an fsType that is left out stands for the one the volume gets anyway. */
export function differences(
  record: VolumeRecord,
  a: Capability,
  b: Capability,
  settings: DriverSettings,
): readonly string[] {
  const fsTypes = [a, b].map((each) => (each.access === "mount" ? fsTypeOf(record, each, settings) : ""));
  const fields: Readonly<Record<string, boolean>> = {
    access: a.access === b.access,
    "access mode": a.mode === b.mode,
    fsType: fsTypes[0] === fsTypes[1],
    mountFlags: sameFlags(a.mountFlags, b.mountFlags),
    mountGroup: a.mountGroup === b.mountGroup,
  };
  return Object.keys(fields).filter((field) => fields[field] === false);
}

/** Why what is staged so cannot be published so. Modes may differ: two workloads of one node may ask for different ones. */
export function publishViolations(
  record: VolumeRecord,
  staging: Staging,
  { capability, readonly }: Pick<Publication, "capability" | "readonly">,
  settings: DriverSettings,
): readonly string[] {
  const found = differences(record, staging.capability, capability, settings)
    .filter((field) => field !== "access mode")
    .map((field) => `it is staged with another ${field}`);
  if (readsOnly(staging.capability.mode) && !readsOnly(capability.mode) && !readonly)
    found.push(`it is staged as ${staging.capability.mode}, and writing was asked for`);
  return found;
}

/** Whether this one writes. */
export const writes = ({ capability, readonly }: Pick<Publication, "capability" | "readonly">): boolean =>
  !readonly && !readsOnly(capability.mode);

/** SINGLE_NODE_SINGLE_WRITER: "Can only be published once as read/write at a single workload on a single node". */
export const secondWriter = (
  wanted: Pick<Publication, "capability" | "readonly">,
  others: readonly Publication[],
): Publication | undefined =>
  writes(wanted)
    ? others.find(
        (other) =>
          writes(other) && [wanted, other].some(({ capability }) => capability.mode === "SINGLE_NODE_SINGLE_WRITER"),
      )
    : undefined;
