/** What happens to a whole set of claims, over the records of all its volumes, in one step or not at all. */

import { slotKey } from "../attachment/slots.ts";
import type { Change } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { Failure } from "../outcome.ts";
import { type VolumeRecord, volumeKey } from "../volume/volume.ts";
import type { Claim, SetMember } from "./claim.ts";
import { memberFailed, queueTimedOut } from "./claim-change.ts";
import { type GrantFacts, grant, inTheWay, type Obstacle, obstacleTo } from "./grant.ts";

export type VolumesByKey = ReadonlyMap<string, VolumeRecord>;

/** By volume key; only the volumes that change. */
export type SetChange = ReadonlyMap<string, Change>;

export interface Blocking {
  readonly volume: VolumeRecord;
  readonly claim: Claim;
  readonly obstacle: Obstacle;
}

export const memberKey = (member: SetMember): string => volumeKey({ namespace: member.namespace, id: member.volume });

/** Changes of several claims, one after the other, gathered by volume. */
const createDrafts = (volumes: VolumesByKey) => {
  const drafts = new Map<string, Change>();
  return {
    volume: (key: string): VolumeRecord | undefined => {
      const draft = drafts.get(key);
      return draft === undefined ? volumes.get(key) : (draft.volume ?? undefined);
    },
    apply(key: string, change: Change): void {
      const before = drafts.get(key);
      drafts.set(key, {
        ...before,
        ...change,
        ended: [...(before?.ended ?? []), ...change.ended],
        notes: [...(before?.notes ?? []), ...change.notes],
      });
    },
    changes: (): SetChange => drafts,
  };
};

/** Members that are still wanted and not granted. One that was released meanwhile no longer counts. */
const queuedMembers = (volumes: VolumesByKey, members: readonly SetMember[]) =>
  members.flatMap((member) => {
    const key = memberKey(member);
    const claim = volumes.get(key)?.claims[member.uid];
    return claim?.state === "QUEUED" ? [{ key, claim }] : [];
  });

export interface SetGrant {
  readonly changes: SetChange;
  readonly blocking: readonly Blocking[];
  /** Attach slots that the set takes, by slot key; those of a pool also by the key of the pool. */
  readonly needs: ReadonlyMap<string, number>;
}

/** Everything else is as it has to be: the set waits for attach slots, in the order of tickets. */
export const lacksOnlySlots = ({ blocking }: SetGrant): boolean =>
  blocking.length > 0 && blocking.every(({ obstacle }) => obstacle.reason === "ATTACH_LIMIT");

/** Grants every queued member, or none: then `blocking` says what stands in the way. */
export const grantSet = (
  volumes: VolumesByKey,
  members: readonly SetMember[],
  factsOf: (plugin: string, node: string) => GrantFacts,
  at: Moment,
): SetGrant => {
  const drafts = createDrafts(volumes);
  const blocking: Blocking[] = [];
  const needs = new Map<string, number>();
  const counted = new Set<string>();
  for (const { key, claim } of queuedMembers(volumes, members)) {
    const volume = drafts.volume(key);
    if (volume === undefined) continue;
    const facts = factsOf(volume.plugin, claim.node);
    const slots = slotKey(volume.plugin, claim.node);
    const taken = { slots: needs.get(slots) ?? 0, pool: needs.get(facts.pool?.key ?? "") ?? 0 };
    const obstacle = obstacleTo(volume, claim, facts, taken);
    // Two claims on one volume share its slot.
    if (volume.attachments[claim.node] === undefined && !counted.has(key)) {
      counted.add(key);
      needs.set(slots, taken.slots + 1);
      if (facts.pool !== undefined) needs.set(facts.pool.key, taken.pool + 1);
    }
    if (obstacle === undefined) drafts.apply(key, grant(volume, claim.uid, facts, at));
    else blocking.push({ volume, claim, obstacle });
  }
  return { changes: blocking.length > 0 ? new Map() : drafts.changes(), blocking, needs };
};

const holdersOf = (volume: VolumeRecord, claim: Claim): string => {
  const names = inTheWay(volume, claim).map((b) => `workload ${b.claim.workload} on node ${b.claim.node}`);
  return names.length === 0 ? "" : `${volumeKey(volume)} by ${names.join(", ")}`;
};

/** The deadline of a set that could not be granted as a whole: every member ends, each naming who was in the way. */
export const expireSet = (volumes: VolumesByKey, members: readonly SetMember[], at: Moment): SetChange => {
  const drafts = createDrafts(volumes);
  const queued = queuedMembers(volumes, members).filter(({ claim }) => claim.queueDeadline <= at.now);
  const holders = queued.flatMap(({ key, claim }) => {
    const volume = volumes.get(key);
    const text = volume === undefined ? "" : holdersOf(volume, claim);
    return text === "" ? [] : [text];
  });
  const named = holders.length === 0 ? "nobody; the node, its plugin or the store was not ready" : holders.join("; ");
  for (const { key, claim } of queued) {
    const volume = drafts.volume(key);
    if (volume !== undefined) drafts.apply(key, queueTimedOut(volume, claim.uid, named, at));
  }
  return drafts.changes();
};

/** Claims that can never become active by what just happened. One that was active once does not take others with it. */
const neverToBe = (before: VolumeRecord, change: Change): readonly Claim[] =>
  Object.values(before.claims).filter((claim) => {
    if (claim.activeAt !== undefined || claim.failure !== undefined) return false;
    const ended = change.ended.find((t) => t.uid === claim.uid);
    return (ended ?? change.volume?.claims[claim.uid])?.failure !== undefined;
  });

/** All or nothing: when a member of a set fails before it was active, the others are let go in the same step. */
export const spreadFailure = (volumes: VolumesByKey, primary: string, change: Change, at: Moment): SetChange => {
  const before = volumes.get(primary);
  const drafts = createDrafts(volumes);
  drafts.apply(primary, change);
  if (before === undefined) return drafts.changes();
  for (const claim of neverToBe(before, change)) {
    const cause = change.ended.find((t) => t.uid === claim.uid)?.failure ?? change.volume?.claims[claim.uid]?.failure;
    const failure: Failure = {
      reason: "SET_MEMBER_FAILED",
      message: `claim ${claim.alias} on volume ${primary} of the same set failed with ${cause?.reason ?? "UNKNOWN"}: ${cause?.message ?? ""}`,
      advice: "fail",
    };
    for (const member of claim.set) {
      const key = memberKey(member);
      const volume = drafts.volume(key);
      const other = volume?.claims[member.uid];
      if (volume === undefined || other === undefined || other.uid === claim.uid || other.failure !== undefined)
        continue;
      drafts.apply(key, memberFailed(volume, other.uid, failure, at));
    }
  }
  return drafts.changes();
};
