/** What may be changed of a volume after it was asked for, and when. All of it is Holdfast's own: nothing is called for it. */
import { useOf } from "@holdfast/model/volume-use";
import { type Change, noChange, volumeNote } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import type { Moment } from "../moment.ts";
import type { SecretRefs, VolumeCapability, VolumePolicy, VolumeRecord, VolumeState } from "./volume.ts";
import { isRegistered } from "./volume-registration.ts";

/** Each part replaces the whole of what it names; an absent part is left alone. */
export interface VolumeUpdate {
  readonly labels?: Readonly<Record<string, string>>;
  /** Without a word on reclaiming: what the way the volume came about stands for. */
  readonly policy?: Omit<VolumePolicy, "reclaim"> & { readonly reclaim: VolumePolicy["reclaim"] | undefined };
  readonly secretRefs?: SecretRefs;
  readonly capabilities?: readonly VolumeCapability[];
}

export const updateParts = ["labels", "policy", "secretRefs", "capabilities"] as const;
export type UpdatePart = (typeof updateParts)[number];

/**
 * Total: whether a part may be changed in a state. Secrets may be corrected at any time, since a call that waits for better ones is the
 * usual reason to do so. Capabilities are part of a CreateVolume that is repeated word for word until its outcome is known, and of a
 * volume that is deleted nothing is decided any more.
 */
export const mayChange: Readonly<Record<UpdatePart, Readonly<Record<VolumeState, boolean>>>> = {
  labels: { CREATING: true, AVAILABLE: true, DELETING: true, FAILED: true },
  policy: { CREATING: true, AVAILABLE: true, DELETING: false, FAILED: true },
  secretRefs: { CREATING: true, AVAILABLE: true, DELETING: true, FAILED: true },
  capabilities: { CREATING: false, AVAILABLE: true, DELETING: false, FAILED: false },
};

export type UpdateRefusal =
  | { readonly kind: "state"; readonly part: UpdatePart }
  /** Claims that have, or wait for, a capability that would go. */
  | { readonly kind: "in-use"; readonly claims: readonly Claim[] };

const uses = (claim: Claim, capability: VolumeCapability): boolean =>
  JSON.stringify(useOf(claim)) === JSON.stringify(useOf(capability));

/** Those that the volume does not have yet: the plugin has to be asked about them. */
export const addedCapabilities = (
  volume: VolumeRecord,
  { capabilities }: VolumeUpdate,
): readonly VolumeCapability[] => {
  const known = new Set(volume.capabilities.map((one) => JSON.stringify(one)));
  return (capabilities ?? []).filter((one) => !known.has(JSON.stringify(one)));
};

const sorted = (value: unknown): unknown =>
  typeof value !== "object" || value === null || Array.isArray(value)
    ? value
    : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));

const same = (a: unknown, b: unknown): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

/** The parts as they would stand in the record. */
const wanted = (volume: VolumeRecord, update: VolumeUpdate): Partial<Pick<VolumeRecord, UpdatePart>> => {
  const { labels, policy, secretRefs, capabilities } = update;
  const reclaim = policy?.reclaim ?? (isRegistered(volume) ? "retain" : "delete");
  return {
    ...(labels === undefined ? {} : { labels }),
    ...(policy === undefined ? {} : { policy: { ...policy, reclaim } }),
    ...(secretRefs === undefined ? {} : { secretRefs }),
    ...(capabilities === undefined ? {} : { capabilities }),
  };
};

const changing = (volume: VolumeRecord, update: VolumeUpdate): readonly UpdatePart[] => {
  const next = wanted(volume, update);
  return updateParts.filter((part) => next[part] !== undefined && !same(next[part], volume[part]));
};

/** Why it may not be; a part that stays as it is needs no leave. */
export const updateRefusal = (volume: VolumeRecord, update: VolumeUpdate): UpdateRefusal | undefined => {
  const parts = changing(volume, update);
  const state = volume.goal === "absent" ? "DELETING" : volume.state;
  const part = parts.find((one) => !mayChange[one][state]);
  if (part !== undefined) return { kind: "state", part };
  const { capabilities } = update;
  if (capabilities === undefined || !parts.includes("capabilities")) return undefined;
  const claims = Object.values(volume.claims).filter((claim) => !capabilities.some((one) => uses(claim, one)));
  return claims.length === 0 ? undefined : { kind: "in-use", claims };
};

/** Other secrets are tried at once, whatever pause the last refusal asked for. */
export const updated = (volume: VolumeRecord, update: VolumeUpdate, at: Moment): Change => {
  const parts = changing(volume, update);
  if (parts.length === 0 || updateRefusal(volume, update) !== undefined) return noChange(volume);
  const attempts = parts.includes("secretRefs") ? { ...volume.attempts, nextTry: 0 } : volume.attempts;
  const next: VolumeRecord = { ...volume, ...wanted(volume, update), attempts, updatedAt: at.now };
  return { volume: next, ended: [], notes: [volumeNote(next)] };
};
