/** What an agent holds of a volume and the store does not know: how it is judged, noted, and given up by a person. */
import { compareEpochs, newerEpoch, zeroEpoch } from "@holdfast/model/epoch";
import { type Change, noChange } from "../change.ts";
import type { ClaimTombstone } from "../claim/claim.ts";
import type { Inventory } from "../claim/permit.ts";
import type { Moment } from "../moment.ts";
import type { ForeignHold, VolumeRecord } from "../volume/volume.ts";

export type Held = Inventory["volumes"][number]["held"][number];

/** What is remembered as released holds nothing. */
export const living = (held: readonly Held[]): readonly Held[] => held.filter(({ state }) => state !== "RELEASED");

/**
 * How a hold stands to the record of its volume. An epoch proves nothing of a claim that the record does not name: a store that was
 * rolled back gives the same epochs again. A claim that is ATTACHING was offered by a store that has lost it: its attach is undone
 * without a word of the agent.
 */
export const judgeHold = (
  volume: VolumeRecord,
  { claimUid, epoch }: Pick<Held, "claimUid" | "epoch">,
): "held" | "over" | "newer" | "unnamed" => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return "unnamed";
  if (compareEpochs(epoch, claim.epoch ?? zeroEpoch) > 0) return "newer";
  if (claim.state === "ATTACHING") return "newer";
  return claim.state === "DETACHING" ? "over" : "held";
};

const sameHolds = (a: readonly ForeignHold[], b: readonly ForeignHold[]): boolean =>
  a.length === b.length && a.every(({ node, claimUid }, i) => node === b[i]?.node && claimUid === b[i]?.claimUid);

/** The foreign holds of one node are these, and no others. What is granted after them has a higher epoch. */
export const foreignNoted = (
  volume: VolumeRecord,
  node: string,
  holds: readonly Pick<Held, "claimUid" | "workload" | "alias" | "epoch">[],
  now: number,
): Change => {
  const before = volume.foreign ?? [];
  const known = new Map(before.map((hold) => [`${hold.node} ${hold.claimUid}`, hold.since]));
  const here = holds.map(({ claimUid, workload, alias, epoch }) => ({
    node,
    claimUid,
    workload,
    alias,
    epoch,
    since: known.get(`${node} ${claimUid}`) ?? now,
  }));
  const after = [...before.filter((hold) => hold.node !== node), ...here].sort((a, b) =>
    `${a.node} ${a.claimUid}` < `${b.node} ${b.claimUid}` ? -1 : 1,
  );
  if (sameHolds(before, after)) return noChange(volume);
  const { foreign: _before, ...rest } = volume;
  const epoch = holds.reduce((high, hold) => newerEpoch(high, hold.epoch), volume.epoch);
  const next = { ...rest, epoch, ...(after.length === 0 ? {} : { foreign: after }), updatedAt: now };
  return { volume: next, ended: [], notes: [] };
};

export interface HoldEnd {
  /** The agent answers. */
  readonly heard: boolean;
  readonly evidence: string;
  /** It has its tombstone, or gets it with the detach: a second one would be a conflict for ever. */
  readonly ended?: boolean;
}

/**
 * A person gives up a claim that only an agent knows. Its tombstone lets the agent be told to let go; the volume stays barred until the
 * agent holds it no more, and at once free when that agent will never speak again.
 */
export const foreignAbandoned = (
  volume: VolumeRecord,
  hold: ForeignHold,
  { heard, evidence, ended = false }: HoldEnd,
  at: Moment,
): Change => {
  const tombstone: ClaimTombstone = {
    uid: hold.claimUid,
    workload: hold.workload,
    alias: hold.alias,
    namespace: volume.namespace,
    volume: volume.id,
    node: hold.node,
    accessMode: "UNKNOWN",
    attachmentMode: "FILE_SYSTEM",
    readOnly: false,
    state: "FAILED",
    failure: {
      reason: "CLAIM_ABANDONED",
      message: `given up without a record of it on node ${hold.node}: ${evidence}`,
    },
    requestId: "",
    createdAt: hold.since,
    endedAt: at.now,
  };
  const left = (volume.foreign ?? []).filter(({ node, claimUid }) => node === hold.node && claimUid !== hold.claimUid);
  const after = heard ? { ...volume, updatedAt: at.now } : foreignNoted(volume, hold.node, left, at.now).volume;
  return { volume: after, ended: ended ? [] : [tombstone], notes: [] };
};
