/** What an agent holds of a volume and the store does not know: how it is judged, noted, and given up by a person. */
import { compareEpochs, type Epoch, newerEpoch, zeroEpoch } from "@holdfast/model/epoch";
import { type Change, noChange } from "../change.ts";
import type { ClaimTombstone } from "../claim/claim.ts";
import type { Inventory } from "../claim/permit.ts";
import { mayBeAhead } from "../claim/permit-ahead.ts";
import type { Moment } from "../moment.ts";
import type { NodeRecord } from "../node/node.ts";
import { hasOutlived, lifeOf } from "../node/node-life.ts";
import type { ForeignHold, VolumeRecord } from "../volume/volume.ts";

export type Held = Inventory["volumes"][number]["held"][number];

/** What is remembered as released holds nothing. */
export const living = (held: readonly Held[]): readonly Held[] => held.filter(({ state }) => state !== "RELEASED");

/**
 * How a hold stands to the record of its volume. An epoch proves nothing of a claim that the record does not name: a store that was
 * rolled back gives the same epochs again. A claim that is ATTACHING was offered by a store that has lost it: its attach is undone
 * without a word of the agent, unless its permit may have left ahead (PA3).
 */
export const judgeHold = (
  volume: VolumeRecord,
  { claimUid, epoch }: Pick<Held, "claimUid" | "epoch">,
): "held" | "over" | "newer" | "unnamed" => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return "unnamed";
  if (compareEpochs(epoch, claim.epoch ?? zeroEpoch) > 0) return "newer";
  if (claim.state === "ATTACHING") return mayBeAhead(claim) ? "held" : "newer";
  return claim.state === "DETACHING" ? "over" : "held";
};

/** Who tells what is held: the life of a node that is registered. */
export type Teller = Pick<
  NodeRecord,
  "name" | "machineId" | "bootId" | "journalUid" | "lockId" | "hostIdentity" | "outlived"
>;

/** Whether that life can say that the hold is over. A hold of an older record names nobody, and is believed to be of whoever has the name. */
export const speaksForHold = (teller: Teller, { node, toldBy }: Pick<ForeignHold, "node" | "toldBy">): boolean =>
  node === teller.name && (toldBy === undefined || hasOutlived(teller, toldBy));

const keyOf = ({ node, claimUid, toldBy }: ForeignHold): string =>
  [
    node,
    claimUid,
    ...(toldBy === undefined ? [] : [toldBy.bootId, toldBy.journalUid, toldBy.machineId, toldBy.lockId]),
  ].join(" ");

const sameHolds = (a: readonly ForeignHold[], b: readonly ForeignHold[]): boolean =>
  a.length === b.length && a.every((hold, i) => b[i] !== undefined && keyOf(hold) === keyOf(b[i]));

/**
 * The foreign holds that this life of a node can speak for are these, and no others. What is granted after them has a higher epoch.
 * Those of another life stay: the name may be that of a machine which knows nothing of them.
 */
export const foreignNoted = (
  volume: VolumeRecord,
  teller: Teller,
  holds: readonly Pick<Held, "claimUid" | "workload" | "alias" | "epoch">[],
  now: number,
): Change => {
  const before = volume.foreign ?? [];
  const own = before.filter((hold) => speaksForHold(teller, hold));
  const since = new Map(own.map((hold) => [hold.claimUid, hold.since]));
  const here = holds.map(({ claimUid, workload, alias, epoch }) => ({
    node: teller.name,
    claimUid,
    workload,
    alias,
    epoch,
    since: since.get(claimUid) ?? now,
    toldBy: lifeOf(teller),
  }));
  const epoch = holds.reduce((high, hold) => newerEpoch(high, hold.epoch), volume.epoch);
  return withForeign(volume, epoch, [...before.filter((hold) => !own.includes(hold)), ...here], now);
};

const withForeign = (volume: VolumeRecord, epoch: Epoch, holds: readonly ForeignHold[], now: number): Change => {
  const { foreign: before = [], ...rest } = volume;
  const after = [...holds].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  if (sameHolds(before, after)) return noChange(volume);
  const next = { ...rest, epoch, ...(after.length === 0 ? {} : { foreign: after }), updatedAt: now };
  return { volume: next, ended: [], notes: [] };
};

export interface HoldEnd {
  /** The agent answers. */
  readonly heard: boolean;
  readonly evidence: string;
  /** It has its tombstone, or gets it with the end of its claim: a second one would be a conflict for ever. */
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
  const left = (volume.foreign ?? []).filter((one) => keyOf(one) !== keyOf(hold));
  const after = heard ? { ...volume, updatedAt: at.now } : withForeign(volume, volume.epoch, left, at.now).volume;
  return { volume: after, ended: ended ? [] : [tombstone], notes: [] };
};
