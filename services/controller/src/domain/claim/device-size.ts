/**
 * Whether a raw block device is as big as its volume has to be: "block volumes MUST match the specified capacity_range". A bigger one is
 * fine, and a smaller one is told and blocks nothing: the data is there, and whoever uses it may do with less.
 */
import { type Change, claimNote, type Note } from "../change.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim, DeviceSize } from "./claim.ts";

/** What a device on the node has to have. Undefined: it is being grown there, and `grown` does not say that this is done. */
export const wantedOn = (
  { capacity, growth }: Pick<VolumeRecord, "capacity" | "growth">,
  node: string,
  grown: boolean,
): number | undefined => {
  if (growth === undefined || growth.done.includes(node)) return capacity.required;
  if (!grown) return undefined;
  return growth.byNodes ? growth.bytes : Math.min(growth.bytes, capacity.required);
};

/** Undefined: it is as big as was asked for, or nobody knows. */
export const shortDevice = ({ publication }: Pick<Claim, "publication">): DeviceSize | undefined => {
  const size = publication?.device?.size;
  return size !== undefined && size.bytes < size.wanted ? size : undefined;
};

/** Every device of the volume on the node, after it was grown there. */
export const withDeviceSize = (volume: VolumeRecord, node: string, size: DeviceSize): VolumeRecord => {
  const claims = Object.entries(volume.claims).map(([uid, claim]) => {
    const { publication } = claim;
    if (claim.node !== node || publication?.device === undefined) return [uid, claim] as const;
    const device = { ...publication.device, size };
    return [uid, { ...claim, publication: { ...publication, device } }] as const;
  });
  return { ...volume, claims: Object.fromEntries(claims) };
};

export const shortWords = ({ bytes, wanted }: DeviceSize): string =>
  `its device has ${bytes} bytes, and ${wanted} were asked for`;

/** Says itself what was found: the state of the claim is what it was. */
const shortNote = (volume: VolumeRecord, claim: Claim, size: DeviceSize): Note => {
  const { type, body } = claimNote(volume, claim);
  return { type, body: { ...body, device: "SMALLER", said: shortWords(size) } };
};

/** Watchers are told once of each device that is found to be smaller. */
export const tellingShortDevices = (before: VolumeRecord, change: Change): Change => {
  const { volume } = change;
  if (volume === null) return change;
  const notes = Object.values(volume.claims).flatMap((claim) => {
    const size = shortDevice(claim);
    const known = before.claims[claim.uid];
    const told = known && shortDevice(known);
    const isNew = size !== undefined && (told?.bytes !== size.bytes || told.wanted !== size.wanted);
    return isNew ? [shortNote(volume, claim, size)] : [];
  });
  return notes.length === 0 ? change : { ...change, notes: [...change.notes, ...notes] };
};
