import { blockOfClaim, type Claim, type ClaimTombstone, type FinalClaimState } from "./claim/claim.ts";
import type { Ending } from "./outcome.ts";
import type { AuditedAs } from "./repair/audit.ts";
import { changeBlocks } from "./size/growth.ts";
import type { VolumeRecord } from "./volume/volume.ts";

/** What a decision leaves to be stored: the record after it, claims that ended, and what watchers are told. */
export interface Change {
  /** null = the record is removed. */
  readonly volume: VolumeRecord | null;
  /** With a removal: no DeleteVolume for its storage can still arrive. Without it, one of a volume that was DELETING may. */
  readonly settled?: true;
  readonly ended: readonly ClaimTombstone[];
  readonly notes: readonly Note[];
  /** A person's word is the reason of the change, and is stored with it. */
  readonly audit?: AuditedAs;
}

/** A line for the event stream. Never holds contexts or secrets. */
export interface Note {
  readonly type: "volume" | "claim";
  readonly body: Readonly<Record<string, string | number | boolean>>;
}

const blockOf = (volume: VolumeRecord): { readonly blocked?: string } => {
  const [first] = [volume.blocked ?? [], changeBlocks(volume)].flat();
  return first === undefined ? {} : { blocked: first.reason };
};

/** No message: it may say what the storage is called. */
const failureOf = ({ failure }: { readonly failure?: Ending }): Note["body"] =>
  failure === undefined
    ? {}
    : {
        failure: failure.reason,
        ...(failure.method === undefined ? {} : { method: failure.method }),
        ...(failure.code === undefined ? {} : { code: failure.code }),
      };

export const volumeNote = (volume: VolumeRecord, state: string = volume.state): Note => ({
  type: "volume",
  body: {
    namespace: volume.namespace,
    volume: volume.id,
    uid: volume.uid,
    plugin: volume.plugin,
    state,
    ...blockOf(volume),
    ...(volume.condition === undefined ? {} : { abnormal: true }),
    ...failureOf(volume),
  },
});

export const claimNote = (volume: VolumeRecord, claim: Claim): Note => {
  const block = blockOfClaim(claim);
  return {
    type: "claim",
    body: {
      namespace: volume.namespace,
      volume: volume.id,
      plugin: volume.plugin,
      workload: claim.workload,
      alias: claim.alias,
      uid: claim.uid,
      node: claim.node,
      state: claim.state,
      ...(block === undefined ? {} : { blocked: block.reason }),
      ...(claim.call === undefined ? {} : { call: claim.call.method }),
      ...(claim.degradedSince === undefined ? {} : { degraded: true }),
      ...failureOf(claim),
    },
  };
};

/** The agent unmounted what its plugin had left mounted. */
export const unmountedNote = (volume: VolumeRecord, claim: Claim, paths: readonly string[]): Note => {
  const { type, body } = claimNote(volume, claim);
  const { blocked: _b, call: _c, degraded: _d, failure: _f, ...rest } = body;
  return { type, body: { ...rest, unmounted: paths.join(", ") } };
};

export const noChange = (volume: VolumeRecord): Change => ({ volume, ended: [], notes: [] });

export const unchanged = (before: VolumeRecord, change: Change): boolean =>
  change.volume === before && change.ended.length === 0;

/** Puts a claim back into its volume. */
export const withClaim = (volume: VolumeRecord, claim: Claim, now: number): VolumeRecord => {
  const entered = volume.claims[claim.uid]?.state !== claim.state;
  const next: Claim = {
    ...claim,
    updatedAt: now,
    ...(entered ? { stateSince: now } : {}),
    ...(claim.state === "ACTIVE" && claim.activeAt === undefined ? { activeAt: now } : {}),
  };
  return { ...volume, claims: { ...volume.claims, [claim.uid]: next }, updatedAt: now };
};

export const withoutKey = <T>(map: Readonly<Record<string, T>>, key: string): Readonly<Record<string, T>> => {
  const { [key]: _gone, ...rest } = map;
  return rest;
};

export const tombstoneOf = (
  volume: VolumeRecord,
  claim: Claim,
  state: FinalClaimState,
  now: number,
): ClaimTombstone => ({
  uid: claim.uid,
  workload: claim.workload,
  alias: claim.alias,
  namespace: volume.namespace,
  volume: volume.id,
  plugin: volume.plugin,
  node: claim.node,
  accessMode: claim.accessMode,
  attachmentMode: claim.attachmentMode,
  readOnly: claim.readOnly,
  state,
  ...(claim.failure === undefined ? {} : { failure: claim.failure }),
  requestId: claim.requestId,
  createdAt: claim.createdAt,
  endedAt: now,
});

/** Takes a claim out of its volume for good and leaves its tombstone. */
export const endClaim = (volume: VolumeRecord, claim: Claim, state: FinalClaimState, now: number): Change => {
  const last: Claim = { ...claim, state, updatedAt: now };
  return {
    volume: { ...volume, claims: withoutKey(volume.claims, claim.uid), updatedAt: now },
    ended: [tombstoneOf(volume, last, state, now)],
    notes: [claimNote(volume, last)],
  };
};

/** A decision over what a change has left of the record; nothing follows a removal. */
export const followedBy = (change: Change, decide: (volume: VolumeRecord) => Change): Change => {
  if (change.volume === null) return change;
  const { volume, ended, notes } = decide(change.volume);
  return { ...change, volume, ended: [...change.ended, ...ended], notes: [...change.notes, ...notes] };
};

/** One decision after another over the same record. */
export const foldChanges = <T>(
  volume: VolumeRecord,
  each: readonly T[],
  decide: (volume: VolumeRecord, one: T) => Change,
): Change => each.reduce<Change>((change, one) => followedBy(change, (left) => decide(left, one)), noChange(volume));
