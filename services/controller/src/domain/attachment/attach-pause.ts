import { type BlockedReason, heldElsewhere, type Subject } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange } from "../change.ts";
import { isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import type { Blocked, Failure } from "../outcome.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../volume/volume.ts";

/**
 * An attach that the backend refuses for now. It was answered, so that nothing of it is under way: it gives the volume's one call back
 * and takes it again for its next try. Were it to keep it, the detach that it waits for could never start, and other nodes of the volume
 * would wait for its pauses.
 */

/** Other nodes that the backend may have the volume attached to, as the record has it. */
const elsewhere = (volume: VolumeRecord, node: string): readonly Attachment[] =>
  Object.values(volume.attachments).filter(
    (a) => a.node !== node && a.needsCalls && (a.state !== "ATTACHING" || a.paused?.uncertainSince !== undefined),
  );

/** CSI: FAILED_PRECONDITION of ControllerPublishVolume says that the volume is published at another node. */
const inTheWayOf = (volume: VolumeRecord, node: string, { code }: Failure): readonly Attachment[] =>
  code === "FAILED_PRECONDITION" ? elsewhere(volume, node) : [];

/**
 * What a refused attach is told of. Explained by the record's own attachments it is nobody's fault: it waits for their detach, and is
 * blocked only while a claim there wants to stay. What no record explains stays FOREIGN_ATTACHMENT.
 */
export const attachTrouble = (
  volume: VolumeRecord,
  asked: { readonly node: string } & Pick<Subject, "workload" | "alias">,
  failure: Failure,
  previous: Blocked | undefined,
  now: number,
): { readonly failure: Failure; readonly blocked?: Blocked } => {
  const { node } = asked;
  const others = inTheWayOf(volume, node, failure);
  if (others.length === 0)
    return { failure, blocked: blockedBy("attach", failure, { ...volume, ...asked }, previous, now) };
  const nodes = others.map((a) => a.node);
  const told: Failure = {
    ...failure,
    reason: "ATTACHED_ELSEWHERE",
    message: `${volumeKey(volume)} is still attached to node ${nodes.join(", ")}, so that plugin ${volume.plugin} does not attach it to node ${node} now: ${failure.message}`,
  };
  const holder = Object.values(volume.claims).find(
    (c) => nodes.includes(c.node) && c.goal === "active" && c.state !== "QUEUED" && c.state !== "DETACHING",
  );
  if (holder === undefined) return { failure: told };
  return { failure: told, blocked: heldElsewhere({ ...volume, node }, holder, failure.message, previous, now) };
};

/** Gives the call back, with what is in doubt of its attempts, this last one among them if it refused nothing for certain. */
export const pauseAttach = (
  volume: VolumeRecord,
  attachment: Attachment,
  failure: Failure,
  at: Moment,
  last: "certain" | "in doubt" = "certain",
) => {
  const { intent, ...rest } = volume;
  const doubtful = intent !== undefined && (last === "in doubt" || isDoubtful(intent, at));
  const uncertainSince = doubtful ? (intent.uncertainSince ?? at.now) : undefined;
  const paused = {
    behind: inTheWayOf(volume, attachment.node, failure).map((a) => a.node),
    ...(uncertainSince === undefined ? {} : { uncertainSince }),
  };
  return {
    ...rest,
    attachments: { ...volume.attachments, [attachment.node]: { ...attachment, paused } },
    updatedAt: at.now,
  };
};

/** Nodes whose owed detach goes before the next try of a paused attach to `node`. */
const detachesFirst = (volume: VolumeRecord, node: string): readonly string[] =>
  Object.values(volume.attachments).flatMap((a) => (a.node !== node && a.state === "DETACHING" ? [a.node] : []));

/** When an attach of the node may be tried, given the pause after its last failure; undefined = another call goes first. */
export const attachTriesAt = (volume: VolumeRecord, node: string, backoff: number): number | undefined => {
  const paused = volume.attachments[node]?.paused;
  if (paused === undefined) return backoff;
  if (volume.intent !== undefined || detachesFirst(volume, node).length > 0) return undefined;
  return paused.behind.some((other) => volume.attachments[other] === undefined) ? 0 : backoff;
};

/** The detach of the node starts: who was blocked on its holder only waits from here on. */
export const toldOfDetach = (volume: VolumeRecord, node: string): VolumeRecord["claims"] => {
  const held = Object.values(volume.claims).filter(
    (c) =>
      c.blocked?.reason === ("ATTACHED_ELSEWHERE" satisfies BlockedReason) &&
      volume.attachments[c.node]?.paused?.behind.includes(node) === true,
  );
  if (held.length === 0) return volume.claims;
  const freed = held.map(({ blocked: _b, ...claim }) => [claim.uid, claim] as const);
  return { ...volume.claims, ...Object.fromEntries(freed) };
};

/** The paused attach takes the volume's one call again: durable before it leaves (I4), and as doubtful as it was (I5). */
export const attachResumed = (volume: VolumeRecord, node: string, at: Moment): Change => {
  const attachment = volume.attachments[node];
  if (attachment?.state !== "ATTACHING" || attachment.paused === undefined) return noChange(volume);
  if (attachTriesAt(volume, node, 0) === undefined) return noChange(volume);
  const { paused, ...rest } = attachment;
  const { uncertainSince } = paused;
  const intent = {
    op: "attach",
    node,
    epoch: volume.epoch,
    issuer: at.issuer,
    opId: at.opId,
    ...(uncertainSince === undefined ? {} : { uncertainSince }),
  } as const;
  const resumed = { ...volume, attachments: { ...volume.attachments, [node]: rest }, intent, updatedAt: at.now };
  // Its time has come, be it by the clock or by a detach.
  const due = Object.values(volume.claims)
    .filter((c) => c.node === node && c.state === "ATTACHING" && c.attempts.nextTry > at.now)
    .map((c) => [c.uid, { ...c, attempts: { ...c.attempts, nextTry: at.now } }] as const);
  return {
    volume: due.length === 0 ? resumed : { ...resumed, claims: { ...volume.claims, ...Object.fromEntries(due) } },
    ended: [],
    notes: [],
  };
};

/** A node whose attach waits for another one's detach: who asks for one more attachment stands behind it. */
export const nodeThatWaits = (volume: VolumeRecord, node: string): string | undefined =>
  Object.values(volume.attachments).find((a) => a.node !== node && (a.paused?.behind.length ?? 0) > 0)?.node;

/** What a paused attach waits for, in words; empty when it is not paused, or only waits for its next try. */
export const pausedFor = (volume: VolumeRecord, node: string): string => {
  const paused = volume.attachments[node]?.paused;
  if (paused === undefined) return "";
  const nodes = new Set([...detachesFirst(volume, node), ...paused.behind.filter((n) => n in volume.attachments)]);
  if (nodes.size > 0) return `the detach from node ${[...nodes].join(", ")}`;
  return volume.intent === undefined ? "" : `another call of the volume to end (${volume.intent.op})`;
};
