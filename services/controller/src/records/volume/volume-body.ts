/**
 * The JSON of a volume's record. What is as it nearly always is, and what stands there twice, is left out and filled in again: there are
 * very many of them, and Redis keeps each in memory.
 *
 * B1 What is read is what was written, field by field. A default here is part of the format: it is never changed, only added.
 */
import type { Claim } from "../../domain/claim/claim.ts";
import { noAttempts } from "../../domain/outcome.ts";
import type { Attachment, VolumeRecord } from "../../domain/volume/volume.ts";

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
  // Not that of the capability: older records have none, because the plugin was told none.
  volumeMountGroup: "",
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

const empty = (value: object): boolean => {
  for (const _key in value) return false;
  return true;
};

/** Most of what is the default is that very object, so that nothing is looked into. */
const isSame = (value: unknown, other: unknown): boolean => {
  if (value === other) return true;
  if (typeof value !== "object" || typeof other !== "object" || value === null || other === null) return false;
  return empty(other) ? empty(value) : JSON.stringify(value) === JSON.stringify(other);
};

/** A copy in which what is the default is undefined: JSON leaves that out. */
const without = (value: object, defaults: Json): Record<string, unknown> => {
  const kept: Record<string, unknown> = { ...value };
  for (const key in defaults) if (isSame(kept[key], defaults[key])) kept[key] = undefined;
  return kept;
};

const mapped = <T>(map: Readonly<Record<string, T>>, turn: (value: T, key: string) => unknown): Json =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, turn(value, key)]));

/** A set of the claim alone is its own. */
const isAlone = ({ namespace, id }: VolumeRecord, { uid, set }: Claim): boolean => {
  const [only] = set;
  return set.length === 1 && only?.uid === uid && only.volume === id && only.namespace === namespace;
};

const claimsBody = (volume: VolumeRecord, defaults: Json): Json =>
  mapped(volume.claims, (claim) => {
    const body = without(claim, defaults);
    body["uid"] = undefined;
    if (isAlone(volume, claim)) body["set"] = undefined;
    return body;
  });

const attachmentsBody = (volume: VolumeRecord, defaults: Json): Json =>
  mapped(volume.attachments, (attachment) => ({ ...without(attachment, defaults), node: undefined }));

export const writeVolumeBody = (volume: VolumeRecord): string => {
  const shared = sharedBy(volume.capabilities);
  const body = without(volume, volumeDefaults);
  if (!empty(volume.claims)) body["claims"] = claimsBody(volume, shared.claim);
  if (!empty(volume.attachments)) body["attachments"] = attachmentsBody(volume, shared.attachment);
  return JSON.stringify(body);
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
