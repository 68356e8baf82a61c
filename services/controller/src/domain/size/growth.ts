import { foreignBlock } from "../attachment/foreign-block.ts";
import { barBlock } from "../bar-block.ts";
import type { Claim } from "../claim/claim.ts";
import { blockOfClaim } from "../claim/claim.ts";
import { type Blocked, noAttempts } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Growth, NodeGrowth } from "./expansion.ts";

/** What a record says of the volume's size, and of what is still owed to it. */

/** Bytes that the volume is known to have; what was asked for when the plugin never said. */
export const sizeOf = ({ capacity }: Pick<VolumeRecord, "capacity">): number =>
  capacity.actual === 0 ? capacity.required : capacity.actual;

/** The volume has left every node: CSI's "after ControllerUnpublish, NodeUnstage or NodeUnpublish", whichever the plugin has. */
export const isUnused = (volume: Pick<VolumeRecord, "attachments">): boolean =>
  Object.keys(volume.attachments).length === 0;

/** It waits for its turn at a volume that no node has now: grants wait for it, or it would never come. */
export const expandsBeforeGrants = (volume: VolumeRecord): boolean => {
  const { expansion } = volume;
  return expansion?.state === "WANTED" && expansion.onlyUnused && expansion.attempts.count < 3 && isUnused(volume);
};

const stays: Readonly<Partial<Record<Claim["state"], true>>> = { ATTACHING: true, OFFERED: true, ACTIVE: true };

/** Nodes that have the volume, will keep it, and have not grown it. */
export const owingNodes = (volume: VolumeRecord): readonly string[] => {
  const { growth } = volume;
  if (growth === undefined) return [];
  const using = Object.values(volume.claims).filter((c) => stays[c.state] === true && c.goal === "active");
  return [...new Set(using.map((c) => c.node))].filter((node) => !growth.done.includes(node));
};

/** The plugin said no for as long as the volume is used there as it is. */
export const mustNotRepeat = (volume: VolumeRecord, node: string): boolean =>
  (volume.growth?.nodes[node]?.refusedBeside ?? []).some((uid) => volume.claims[uid] !== undefined);

/** Nobody owes anything any more. */
export const isGrownEverywhere = (volume: VolumeRecord): boolean =>
  volume.growth !== undefined && volume.growth.done.length > 0 && owingNodes(volume).length === 0;

/** What a permit for that node has to bring along. */
export const growthOwedTo = (volume: VolumeRecord, node: string): Growth | undefined =>
  volume.growth === undefined || volume.growth.done.includes(node) || mustNotRepeat(volume, node)
    ? undefined
    : volume.growth;

/** Nodes whose part is still to be done, with how they stand. */
export const pendingNodes = (volume: VolumeRecord): readonly (NodeGrowth & { readonly node: string })[] =>
  owingNodes(volume).map((node) => ({ node, ...(volume.growth?.nodes[node] ?? { attempts: noAttempts }) }));

/** Every block of a change that was asked for. */
export const changeBlocks = (volume: VolumeRecord): readonly Blocked[] =>
  [volume.expansion?.blocked, volume.modification?.blocked, ...pendingNodes(volume).map((n) => n.blocked)].flatMap(
    (blocked) => blocked ?? [],
  );

/** Growth that nodes owe from now on; what they did for a smaller size does not count, and what they may have done stays in doubt. */
export const growthTo = (
  volume: VolumeRecord,
  bytes: number,
  limit: number,
  byNodes: boolean,
  now: number,
): Growth => ({
  bytes: Math.max(bytes, volume.growth?.bytes ?? 0),
  limit,
  byNodes: byNodes || (volume.growth?.byNodes ?? false),
  done: [],
  nodes: Object.fromEntries(
    Object.entries(volume.growth?.nodes ?? {}).flatMap(([node, { uncertainSince }]) =>
      uncertainSince === undefined ? [] : [[node, { attempts: noAttempts, uncertainSince }]],
    ),
  ),
  since: volume.growth?.since ?? now,
});

/** Everything of the volume that cannot go on by itself. */
export const blocksOf = (volume: VolumeRecord): readonly Blocked[] =>
  [
    volume.blocked,
    ...Object.values(volume.claims).map(blockOfClaim),
    ...changeBlocks(volume),
    ...Object.values(volume.attachments).map(({ owed }) => owed?.blocked),
    ...(volume.foreign ?? []).map((hold) => foreignBlock(volume, hold)),
    ...volume.bars.map((bar) => barBlock(volume, bar)),
  ].filter((blocked) => blocked !== undefined);

export const isBlocked = (volume: VolumeRecord): boolean => blocksOf(volume).length > 0;
