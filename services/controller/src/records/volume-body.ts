/**
 * The JSON of a volume's record. What is as it nearly always is, and what stands there twice, is left out and filled in again: there are
 * very many of them, and Redis keeps each in memory.
 *
 * B1 What is read is what was written, field by field. A default here is part of the format: it is never changed, only added.
 */
import type { Claim } from "../domain/claim.ts";
import { noAttempts } from "../domain/outcome.ts";
import type { Attachment, VolumeRecord } from "../domain/volume.ts";

type Json = Readonly<Record<string, unknown>>;

const volumeDefaults = {
  pluginVersion: "",
  parameters: {},
  mutableParameters: {},
  topology: { required: [], preferred: [], accessible: [] },
  contentSource: { kind: "none" },
  context: {},
  secretRefs: {},
  labels: {},
  policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  state: "AVAILABLE",
  goal: "present",
  claims: {},
  attachments: {},
  bars: [],
  attempts: noAttempts,
  requestId: "",
} satisfies Partial<VolumeRecord>;

const claimDefaults = {
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  readOnly: false,
  goal: "active",
  requestId: "",
  attempts: noAttempts,
} satisfies Partial<Claim>;

const attachmentDefaults = {
  state: "ATTACHED",
  needsCalls: true,
  readOnly: false,
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  publishContext: {},
} satisfies Partial<Attachment>;

/** Claims are nearly always for the first capability that the volume has, and attachments for that of their claims. */
const sharedBy = (capabilities: VolumeRecord["capabilities"] | undefined) => {
  const first = capabilities?.[0];
  if (first === undefined) return { claim: claimDefaults, attachment: attachmentDefaults };
  const { attachmentMode, accessMode, fsType, mountFlags, volumeMountGroup } = first;
  const mode = { attachmentMode, accessMode, fsType, mountFlags };
  return {
    claim: { ...claimDefaults, ...mode, volumeMountGroup },
    attachment: { ...attachmentDefaults, ...mode },
  };
};

const textOf = (defaults: Json): ReadonlyMap<string, string> =>
  new Map(Object.entries(defaults).map(([key, value]) => [key, JSON.stringify(value)]));
const volumeTexts = textOf(volumeDefaults);

const empty = (value: object): boolean => {
  for (const _key in value) return false;
  return true;
};

/** Cheap for the usual ones: only what might be the default is turned into text and compared. */
const isDefault = (value: unknown, text: string): boolean => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) === text;
  if (text === "{}" || text === "[]") return empty(value);
  return JSON.stringify(value) === text;
};

const without = (value: object, defaults: ReadonlyMap<string, string>): Record<string, unknown> => {
  const kept: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) {
    const text = defaults.get(key);
    if (text === undefined || !isDefault(field, text)) kept[key] = field;
  }
  return kept;
};

const mapped = <T>(map: Readonly<Record<string, T>>, turn: (value: T, key: string) => unknown): Json =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, turn(value, key)]));

/** A set of the claim alone is its own. */
const isAlone = ({ namespace, id }: VolumeRecord, { uid, set }: Claim): boolean => {
  const [only] = set;
  return set.length === 1 && only?.uid === uid && only.volume === id && only.namespace === namespace;
};

const claimsBody = (volume: VolumeRecord, defaults: Json): Json => {
  const texts = textOf(defaults);
  return mapped(volume.claims, (claim) => {
    const { uid: _key, set, ...rest } = without(claim, texts);
    return isAlone(volume, claim) ? rest : { ...rest, set };
  });
};

const attachmentsBody = (volume: VolumeRecord, defaults: Json): Json => {
  const texts = textOf(defaults);
  return mapped(volume.attachments, (attachment) => {
    const { node: _key, ...rest } = without(attachment, texts);
    return rest;
  });
};

export const writeVolumeBody = (volume: VolumeRecord): string => {
  const shared = sharedBy(volume.capabilities);
  return JSON.stringify({
    ...without(volume, volumeTexts),
    ...(empty(volume.claims) ? {} : { claims: claimsBody(volume, shared.claim) }),
    ...(empty(volume.attachments) ? {} : { attachments: attachmentsBody(volume, shared.attachment) }),
  });
};

/** Of the very text that `writeVolumeBody` made, or of one with every field in it. */
export const readVolumeBody = (body: string): VolumeRecord => {
  // Only this file writes them, so that what parses, with what was left out, has the type that was written.
  const read: VolumeRecord = { ...volumeDefaults, ...JSON.parse(body) };
  const { namespace, id } = read;
  const shared = sharedBy(read.capabilities);
  return {
    ...read,
    claims: mapped(read.claims, (claim: Partial<Claim>, uid) => ({
      ...shared.claim,
      set: [{ namespace, volume: id, uid }],
      ...claim,
      uid,
    })) as VolumeRecord["claims"],
    attachments: mapped(read.attachments, (attachment: Partial<Attachment>, node) => ({
      ...shared.attachment,
      ...attachment,
      node,
    })) as VolumeRecord["attachments"],
  };
};
