/**
 * Fencing: the volumes of a node are taken from it on evidence, in the place of the proof of release that its agent cannot give.
 *
 * F1 The evidence stands in the node's record, and its incarnation rises in the same commit: no permit for an earlier one is honoured by an
 *    agent that has heard of it.
 * F2 A claim whose pair has a bar waits until the bar is lifted. That the host is off lifts the bars of its own gates; a fence of kind
 *    `on-detach` lifts none.
 * F3 The claim holds its volume until the detach is done, and ends FENCED: where the detach is the fence, nothing moves before it.
 * F4 A fence forces only a node that is silent. An agent that speaks again gives back by itself, and its word is the better proof; and
 *    whoever spoke was not off: if it falls silent again, that word is no evidence any more.
 */
import { foreignNoted } from "../attachment/foreign-hold.ts";
import { pairBars } from "../bar.ts";
import { type Change, foldChanges, noChange } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import { nodeFenced, startDetach, step } from "../claim/claim-step.ts";
import type { Moment } from "../moment.ts";
import type { CallBar } from "../open-call.ts";
import type { Bar, VolumeRecord } from "../volume/volume.ts";
import type { NodeFence, NodeRecord } from "./node.ts";
import { speaksFor } from "./pending-life.ts";

export const isFenced = ({ state }: Pick<NodeRecord, "state">): boolean => state !== "READY";

/** What was stored before the fence. The incarnation rises, so that what was given to the node is known as of before. */
export const fenceBegun = (record: NodeRecord, fence: NodeFence): NodeRecord => ({
  ...record,
  state: "FENCING",
  nodeEpoch: record.nodeEpoch + 1,
  fence,
});

/** What the record says of a fence that is over. */
export const fenceEnded = ({ fence: _over, ...record }: NodeRecord): NodeRecord => ({ ...record, state: "READY" });

/** F4: nothing is forced on its evidence any more. */
export const isDisproved = ({ fence }: Pick<NodeRecord, "fence">): boolean =>
  fence?.kind === "power-off" && fence.spoke === true;

/** Its agent may hold mounts, also while it is silent: it is not fenced, or it was heard since, so that its fence says nothing of it now. */
export const mayHold = (record: Pick<NodeRecord, "state" | "fence">): boolean =>
  !isFenced(record) || record.fence?.spoke === true;

/** A gate of the machine that the evidence is about, and not of another one that had the name. */
export const isOfThisMachine = (
  { speaksFrom = 0 }: Pick<NodeRecord, "speaksFrom">,
  { gateEpoch = 0 }: Pick<CallBar, "gateEpoch">,
): boolean => gateEpoch >= speaksFrom;

/** The host of that gate is off with everything that it had in hand, as a person has seen. */
export const isOffWithGate = (
  record: Pick<NodeRecord, "fence" | "speaksFrom">,
  bar: Pick<CallBar, "gateEpoch">,
): boolean => record.fence?.kind === "power-off" && !isDisproved(record) && isOfThisMachine(record, bar);

/** The bars that a fence of the node waits for (F2). */
export const barsBeforeFence = (volume: VolumeRecord, node: string): readonly Bar[] =>
  pairBars(volume, { node, nodeId: volume.attachments[node]?.nodeId ?? "" });

/** `forced`: without the node's word. `asked`: its agent speaks, and ends its claims by its own releases. */
type FenceWay = "forced" | "asked";

const isTold = ({ failure }: Claim): boolean => failure?.reason === nodeFenced;

/** Claims of the node that still have to be told of the fence. */
const claimsToFence = (volume: VolumeRecord, node: string, way: FenceWay): readonly Claim[] =>
  Object.values(volume.claims).filter(
    (claim) => claim.node === node && !(isTold(claim) && (way === "asked" || claim.state === "DETACHING")),
  );

/** Granted to another machine that had the name: the evidence says nothing of it. */
export const ofEarlierLife = (record: NodeRecord, volume: VolumeRecord): Claim | undefined =>
  Object.values(volume.claims).find((claim) => claim.node === record.name && !speaksFor(record, claim));

const wordsOf = ({ name, fence }: NodeRecord): string =>
  fence === undefined
    ? `node ${name} was fenced; holdfast audit list -A says by whom and why`
    : `node ${name} was fenced by ${fence.who} at ${new Date(fence.since).toISOString()} (${fence.kind}): ${fence.evidence}`;

/** Ends what the node has of the volume (F2, F3), or has its agent end it (F4). */
export const volumeFenced = (volume: VolumeRecord, record: NodeRecord, way: FenceWay, at: Moment): Change => {
  const { name } = record;
  const claims = claimsToFence(volume, name, way);
  const failure = { reason: nodeFenced, message: wordsOf(record) };
  const told = (claim: Claim): Claim => ({ ...claim, goal: "released", failure });
  if (way === "asked") return foldChanges(volume, claims, (v, { uid }) => step(v, uid, "release_wanted", at, told));
  if (isDisproved(record) || barsBeforeFence(volume, name).length > 0) return noChange(volume);
  // What a machine that is off held beside the records is held no more; it is found again when the machine comes back.
  const known = record.fence?.kind === "power-off" ? foreignNoted(volume, record, [], at.now).volume : volume;
  if (known === null) return noChange(volume);
  const attachment = volume.attachments[name];
  const undone = attachment !== undefined && claims.some(({ state }) => state === "ATTACHING");
  return foldChanges(undone ? startDetach(known, attachment, at) : known, claims, (v, { uid }) =>
    step(v, uid, "fenced", at, told),
  );
};

/** What the node still has of the volume; claims that only wait for it have nothing. */
export const heldOn = (volume: VolumeRecord, node: string): number =>
  Object.values(volume.claims).filter((claim) => claim.node === node && claim.state !== "QUEUED").length +
  (volume.attachments[node] === undefined ? 0 : 1) +
  barsBeforeFence(volume, node).length;
