import { accessConflict } from "@holdfast/model/access";
import { useOf } from "@holdfast/model/volume-use";
import { slotKey } from "../../domain/attachment/slots.ts";
import { type Change, claimNote, type Note, withClaim } from "../../domain/change.ts";
import type { Claim, SetMember } from "../../domain/claim/claim.ts";
import { type Blocking, grantSet } from "../../domain/claim/claim-set-change.ts";
import { takesEarlyClaims } from "../../domain/claim/early-claims.ts";
import { claimed } from "../../domain/claim/ephemeral.ts";
import { followed, type GrantFacts, nodeReaches } from "../../domain/claim/grant.ts";
import { byteLength, limits } from "../../domain/limits.ts";
import type { Moment } from "../../domain/moment.ts";
import { noAttempts } from "../../domain/outcome.ts";
import { chooseCapability } from "../../domain/volume/capability-match.ts";
import { restoreClaimed } from "../../domain/volume/group-restore.ts";
import { type VolumeCapability, type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import {
  capabilityMismatch,
  claimConflict,
  claimExists,
  obstacleError,
  volumeFull,
  volumeNotAvailable,
  volumeNotFound,
} from "../errors.ts";

/** One claim that is asked for, with the uid that it gets if it is new. */
export interface WantedClaim {
  readonly ref: VolumeRef;
  readonly alias: string;
  readonly capability: VolumeCapability | undefined;
  readonly readOnly: boolean;
  readonly uid: string;
}

export interface ClaimOrder {
  readonly workload: string;
  readonly node: string;
  readonly wanted: readonly WantedClaim[];
  readonly requestId: string;
  readonly ticket: string;
  /** Wait for what passes with time, instead of being refused. */
  readonly queue: boolean;
  readonly queueDeadline: number;
  /** Workloads whose claims these follow: when one of them has any of the volumes, these are granted first once that is released. */
  readonly after: readonly string[];
  readonly trace: Claim["trace"];
}

export interface GrantView {
  readonly facts: (plugin: string) => GrantFacts;
  readonly nodeState: string;
}

export interface ClaimDecision {
  /** By volume key. */
  readonly changes: ReadonlyMap<string, Change>;
  /** In the order of the request: the claims that stand for it, new or known. */
  readonly uids: readonly string[];
}

/**
 * Keys whose life is not over and that nobody asked to end: the same request answers them. So does the very claim that this request has
 * made by a commit whose answer was lost, although somebody has asked for its end since.
 */
const standing = (volume: VolumeRecord, workload: string, { alias, uid }: WantedClaim): Claim | undefined =>
  volume.claims[uid] ??
  Object.values(volume.claims).find((c) => c.workload === workload && c.alias === alias && c.goal === "active");

const differing = (claim: Claim, wanted: Claim): string | undefined => {
  const fields: readonly (readonly [string, unknown, unknown])[] = [
    ["node", claim.node, wanted.node],
    ["attachment_mode", claim.attachmentMode, wanted.attachmentMode],
    ["access_mode", claim.accessMode, wanted.accessMode],
    ["fs_type", claim.fsType, wanted.fsType],
    ["mount_flags", claim.mountFlags.join(","), wanted.mountFlags.join(",")],
    ["volume_mount_group", claim.volumeMountGroup, wanted.volumeMountGroup],
    ["read_only", claim.readOnly, wanted.readOnly],
  ];
  return fields.find(([, has, wants]) => has !== wants)?.[0];
};

const newClaim = (
  order: ClaimOrder,
  wanted: WantedClaim,
  volume: VolumeRecord,
  after: string | undefined,
  at: Moment,
): Claim => {
  const choice = chooseCapability(volume.capabilities, wanted.capability, wanted.readOnly);
  if (!choice.ok) throw capabilityMismatch(volume, volume.plugin, choice.mismatch);
  return {
    uid: wanted.uid,
    workload: order.workload,
    alias: wanted.alias,
    node: order.node,
    ...useOf(choice.capability),
    readOnly: wanted.readOnly,
    state: "QUEUED",
    goal: "active",
    ticket: order.ticket,
    queueDeadline: order.queueDeadline,
    ...(after === undefined ? {} : { after }),
    requestId: order.requestId,
    set: [],
    ...(order.trace === undefined ? {} : { trace: order.trace }),
    attempts: noAttempts,
    createdAt: at.now,
    updatedAt: at.now,
    stateSince: at.now,
  };
};

/** Members of one set that could never live beside each other would wait for ever. */
const checkMembers = (claims: readonly { readonly ref: VolumeRef; readonly claim: Claim }[]): void => {
  for (const [i, a] of claims.entries())
    for (const b of claims.slice(i + 1)) {
      if (a.ref.id !== b.ref.id || a.ref.namespace !== b.ref.namespace) continue;
      const why = accessConflict(a.claim, b.claim);
      if (why !== undefined)
        throw claimConflict(a.ref, `claims ${a.claim.alias} and ${b.claim.alias} exclude each other: ${why}`, b.claim);
    }
};

/** Few claims always fit; a record that is too large could not even take the release of one. */
const alwaysFit = 32;
const checkRoom = (volume: VolumeRecord): void => {
  const claims = Object.keys(volume.claims).length;
  if (claims > alwaysFit && byteLength(JSON.stringify(volume)) > limits.volumeBytes)
    throw volumeFull(volume, claims - 1);
};

/** What is only a matter of the volume's own work in progress, or of the same claim's former life, is waited for without asking. */
const passesByItself = (order: ClaimOrder, { volume, obstacle }: Blocking, aliases: ReadonlySet<string>): boolean =>
  obstacle.reason === "VOLUME_BUSY" ||
  (obstacle.reason === "VOLUME_NOT_AVAILABLE" && takesEarlyClaims(volume)) ||
  (obstacle.holders.length > 0 &&
    obstacle.holders.every((h) => h.workload === order.workload && aliases.has(h.alias) && h.goal === "released"));

/** The first word about each new claim says that it is new: only the order of these tells which claims are younger than a list. */
const withBirths = (changes: ReadonlyMap<string, Change>, set: readonly SetMember[]): ReadonlyMap<string, Change> => {
  const unborn = new Set(set.map(({ uid }) => uid));
  const told = (note: Note): Note => {
    const uid = note.body["uid"];
    if (note.type !== "claim" || typeof uid !== "string" || !unborn.delete(uid)) return note;
    return { ...note, body: { ...note.body, created: true } };
  };
  return new Map([...changes].map(([key, change]) => [key, { ...change, notes: change.notes.map(told) }]));
};

/** More slots than there are on the node, by the plugin's own word: no wait gives it those. */
const neverFits = (
  { volume, claim }: Blocking,
  needs: ReadonlyMap<string, number>,
  { slots, pool }: GrantFacts,
): boolean =>
  (slots !== undefined && !slots.learned && (needs.get(slotKey(volume.plugin, claim.node)) ?? 0) > slots.limit) ||
  (pool !== undefined && (needs.get(pool.key) ?? 0) > pool.limit);

/**
 * Decides a workload's whole set over the records of all its volumes: the claims that stand already, and either all new
 * ones granted at once, or all of them QUEUED, or an error and nothing at all. Pure: a repeat over the same records
 * decides the same.
 */
export const decideClaims = (
  volumes: ReadonlyMap<string, VolumeRecord | undefined>,
  order: ClaimOrder,
  view: GrantView,
  at: Moment,
): ClaimDecision => {
  const after = followed(
    order.wanted.map(({ ref }) => volumes.get(volumeKey(ref))),
    order.after,
  );
  const answers = order.wanted.map((wanted) => {
    const volume = volumes.get(volumeKey(wanted.ref));
    if (volume === undefined) throw volumeNotFound(wanted.ref);
    const claim = newClaim(order, wanted, volume, after, at);
    const known = standing(volume, order.workload, wanted);
    const field = known === undefined ? undefined : differing(known, claim);
    if (known !== undefined && field !== undefined) throw claimExists(known, volume, field);
    return { key: volumeKey(wanted.ref), ref: wanted.ref, volume, claim: known ?? claim, isNew: known === undefined };
  });
  const added = answers.filter((a) => a.isNew);
  const uids = answers.map((a) => a.claim.uid);
  if (added.length === 0) return { changes: new Map(), uids };

  for (const { volume } of added) {
    if (!takesEarlyClaims(volume) && (volume.state !== "AVAILABLE" || volume.goal !== "present"))
      throw volumeNotAvailable(volume);
    const facts = view.facts(volume.plugin);
    if (facts.nodeId !== "" && !nodeReaches(volume, facts.topology))
      throw obstacleError(
        volume,
        order.node,
        {
          reason: "TOPOLOGY_MISMATCH",
          message: `volume ${volumeKey(volume)} cannot be reached from node ${order.node}`,
          holders: [],
        },
        view,
      );
  }
  checkMembers(answers);

  const set: readonly SetMember[] = added.map(({ ref, claim }) => ({
    namespace: ref.namespace,
    volume: ref.id,
    uid: claim.uid,
  }));
  const drafts = new Map<string, VolumeRecord>();
  const queued = new Map<string, Note[]>();
  for (const { key, volume, claim } of added) {
    const member: Claim = { ...claim, set };
    const after = restoreClaimed(claimed(withClaim(drafts.get(key) ?? volume, member, at.now)));
    drafts.set(key, after);
    queued.set(key, [...(queued.get(key) ?? []), claimNote(after, member)]);
  }
  for (const volume of drafts.values()) checkRoom(volume);
  const { changes, blocking, needs } = grantSet(drafts, set, (plugin) => view.facts(plugin), at);
  if (blocking.length === 0) return { changes: withBirths(changes, set), uids };
  const aliases = new Set(added.map((m) => m.claim.alias));
  const hard = blocking.find((b) =>
    order.queue ? neverFits(b, needs, view.facts(b.volume.plugin)) : !passesByItself(order, b, aliases),
  );
  if (hard !== undefined) {
    const { unvetted } = view.facts(hard.volume.plugin);
    throw obstacleError(hard.volume, order.node, hard.obstacle, { ...view, unvetted });
  }
  return {
    uids,
    changes: withBirths(
      new Map([...drafts].map(([key, volume]) => [key, { volume, ended: [], notes: queued.get(key) ?? [] }])),
      set,
    ),
  };
};
