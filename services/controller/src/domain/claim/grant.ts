import { accessConflict, accessRules } from "@holdfast/model/access";
import { nextEpoch } from "@holdfast/model/epoch";
import type { Tri } from "@holdfast/model/tri";
import { useOf } from "@holdfast/model/volume-use";
import { nodeThatWaits, pausedFor } from "../attachment/attach-pause.ts";
import { type PoolState, slotsLacking, type TakenSlots } from "../attachment/attach-pool.ts";
import { attachedFor, keepAnotherFromWriting } from "../attachment/attached-for.ts";
import { foreignBlock, foreignWords } from "../attachment/foreign-block.ts";
import type { SlotState } from "../attachment/slots.ts";
import { grantBar } from "../bar.ts";
import { barBlock, barWords } from "../bar-block.ts";
import type { Change } from "../change.ts";
import { claimNote, noChange, withClaim } from "../change.ts";
import type { Moment } from "../moment.ts";
import { expandsBeforeGrants } from "../size/growth.ts";
import type { Attachment, ForeignHold, Segments, VolumeRecord } from "../volume/volume.ts";
import type { Claim } from "./claim.ts";
import { claimMachine, holds } from "./claim-machine.ts";
import { mayBeMadeFor, takesEarlyClaims } from "./early-claims.ts";

/** What a grant has to know about the node, the plugin there and the store; gathered by the caller, judged here. */
export interface GrantFacts {
  readonly nodeReady: boolean;
  /** Why it takes no new claims although it is ready; those that it has go on. */
  readonly nodeClosed?: string;
  readonly nodeEpoch: number;
  /** The plugin's name for the node; empty while its node half is not known there. */
  readonly nodeId: string;
  readonly topology: Segments;
  /** The machine that has the node's name now. */
  readonly machineId?: string;
  /** Of the same host, as its identity shows. */
  readonly machinesBefore?: readonly string[];
  /** Why the plugin's controller half takes no call now; absent when it does. */
  readonly pluginTrouble?: string;
  /** The plugin is there and its calls wait all the same: no obstacle to a grant, and worth telling. */
  readonly callsHeld?: string;
  readonly pluginVersion: string;
  /** ControllerPublish needed? `unknown` waits and never means "no". */
  readonly attaches: Tri;
  readonly publishesReadOnly: Tri;
  /** Of the plugin on the node; absent = it takes any number. */
  readonly slots?: SlotState;
  /** That the plugin shares with others on the node. */
  readonly pool?: PoolState;
  /** Why nothing may be granted from the store; absent when it may. */
  readonly unvetted?: string;
  readonly storeGen: number;
}

/** Why a claim cannot be granted now. `holders` are the claims in its way; none = it only has to wait for work in progress. */
export interface Obstacle {
  readonly reason:
    | "CLAIM_CONFLICT"
    | "VOLUME_BUSY"
    | "VOLUME_NOT_AVAILABLE"
    | "NODE_NOT_READY"
    | "PLUGIN_NOT_READY"
    | "TOPOLOGY_MISMATCH"
    | "STORE_UNVETTED"
    | "NODE_BARRED"
    | "FOREIGN_HOLD"
    | "ATTACH_LIMIT";
  readonly message: string;
  readonly holders: readonly Claim[];
  /** ATTACH_LIMIT: how many there may be, of the plugin or of its pool. */
  readonly limit?: number;
  readonly pool?: string;
}

const obstacle = (reason: Obstacle["reason"], message: string, holders: readonly Claim[] = []): Obstacle => ({
  reason,
  message,
  holders,
});

/** Who stands before `claim`: hand-overs from a holder that is gone first, then the order of tickets. */
export const queueBefore = (a: Claim, b: Claim): number =>
  Number(b.after !== undefined) - Number(a.after !== undefined) ||
  (a.ticket < b.ticket ? -1 : a.ticket > b.ticket ? 1 : 0);

/**
 * Whom claims on these volumes follow: all of them alike, so that a set has one place in every queue. With a better one on some of its
 * volumes only, it and an older set could each stand before the other, and both would wait until their time is over. Only who holds one
 * of them is followed: with the place of a successor, who follows one that waits itself would stand before that one, and before all
 * others that were there earlier.
 */
export const followed = (
  volumes: readonly (VolumeRecord | undefined)[],
  after: readonly string[],
): string | undefined => {
  const holders = new Set(volumes.flatMap((v) => (v === undefined ? [] : holdersOf(v).map((c) => c.workload))));
  return after.find((workload) => holders.has(workload));
};

export const queueOf = (volume: VolumeRecord): readonly Claim[] =>
  Object.values(volume.claims)
    .filter((c) => c.state === "QUEUED")
    .sort(queueBefore);

export const holdersOf = (volume: VolumeRecord): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => holds[c.state]);

/** Claims that hold the volume, or stand before this one in its queue, and cannot live beside it (I1). */
export const inTheWay = (
  volume: VolumeRecord,
  claim: Claim,
): readonly { readonly claim: Claim; readonly why: string }[] => {
  const ahead = queueOf(volume).filter((c) => c.uid !== claim.uid && queueBefore(c, claim) < 0);
  const conflicts = [...holdersOf(volume), ...ahead].flatMap((other) => {
    if (other.uid === claim.uid) return [];
    const why =
      other.workload === claim.workload && other.alias === claim.alias
        ? "the same claim is still being released"
        : accessConflict(claim, other);
    return why === undefined ? [] : [{ claim: other, why }];
  });
  return [...conflicts, ...keepAnotherFromWriting(volume, claim)];
};

/** Why nothing of the volume is granted, with the command. */
export const foreignBarred = (volume: VolumeRecord, hold: ForeignHold): string =>
  `${foreignWords(volume, hold)}; ${foreignBlock(volume, hold).clearWith}`;

const matches = (node: Segments, wanted: Segments): boolean => {
  const folded = new Map(Object.entries(node).map(([k, v]) => [k.toLowerCase(), v]));
  return Object.entries(wanted).every(([k, v]) => folded.get(k.toLowerCase()) === v);
};

/** CSI: a volume with accessible topology can be used only from a node that matches at least one of its segments. */
export const nodeReaches = (volume: VolumeRecord, node: Segments): boolean =>
  takesEarlyClaims(volume)
    ? mayBeMadeFor(volume, node)
    : volume.topology.accessible.length === 0 || volume.topology.accessible.some((wanted) => matches(node, wanted));

/** The attach in progress is for the claim's own node: one call serves both. */
const joins = (volume: VolumeRecord, claim: Claim): boolean =>
  volume.intent?.op === "attach" && volume.intent.node === claim.node;

/** The pair was granted to a machine that has lost its name to another: the new one has and knows nothing of it (I7). */
export const isOfOtherMachine = (
  { machineId }: Pick<Attachment, "machineId">,
  now: { readonly machineId?: string; readonly machinesBefore?: readonly string[] | undefined },
): boolean =>
  machineId !== undefined &&
  now.machineId !== undefined &&
  machineId !== now.machineId &&
  now.machinesBefore?.includes(machineId) !== true;

/** An attach that waits for a detach is not overtaken: each newcomer would be attached where it is to go. */
export const attachGoesFirst = (volume: VolumeRecord, node: string): string =>
  `volume ${volume.namespace}/${volume.id} is to be attached to node ${node} first, which waits for ${pausedFor(volume, node) || "its next try"}`;

/** Another node's attachment that no claim owns: with a mode for one node nothing is attached beside it, before its detach has ended. */
const besideUnowned = (volume: VolumeRecord, claim: Claim): Attachment | undefined => {
  const forOne = ({ accessMode }: Pick<Claim, "accessMode">): boolean => !accessRules[accessMode].manyNodes;
  return Object.values(volume.attachments).find(
    (other) =>
      other.node !== claim.node &&
      other.state === "DETACHING" &&
      other.owed !== undefined &&
      (forOne(claim) || forOne(other)),
  );
};

export const unvettedWords = (why: string): string => `the store is not vetted yet: ${why}`;

/** Rule G1. undefined = it may be granted now, beside the slots that other members of its set take. */
export const obstacleTo = (
  volume: VolumeRecord,
  claim: Claim,
  facts: GrantFacts,
  taken?: TakenSlots,
): Obstacle | undefined => {
  const name = `volume ${volume.namespace}/${volume.id}`;
  if (volume.state !== "AVAILABLE" || volume.goal !== "present" || volume.externalId === "")
    return obstacle("VOLUME_NOT_AVAILABLE", `${name} is ${volume.goal === "absent" ? "being deleted" : volume.state}`);
  const blocking = inTheWay(volume, claim);
  const first = blocking[0];
  if (first !== undefined)
    return obstacle(
      "CLAIM_CONFLICT",
      `${name} is ${holds[first.claim.state] ? "held" : "waited for"} by workload ${first.claim.workload} on node ${first.claim.node} (${first.claim.state}): ${first.why}`,
      blocking.map((b) => b.claim),
    );
  const [foreign] = volume.foreign ?? [];
  if (foreign !== undefined) return obstacle("FOREIGN_HOLD", foreignBarred(volume, foreign));
  if (facts.unvetted !== undefined) return obstacle("STORE_UNVETTED", unvettedWords(facts.unvetted));
  if (!facts.nodeReady) return obstacle("NODE_NOT_READY", `node ${claim.node} is not ready`);
  if (facts.nodeClosed !== undefined) return obstacle("NODE_NOT_READY", facts.nodeClosed);
  if (facts.nodeId === "" || facts.attaches === "unknown")
    return obstacle("PLUGIN_NOT_READY", `plugin ${volume.plugin} is not ready for node ${claim.node}`);
  if (!nodeReaches(volume, facts.topology))
    return obstacle("TOPOLOGY_MISMATCH", `${name} cannot be reached from node ${claim.node}`);
  const bar = grantBar(volume, { node: claim.node, nodeId: facts.nodeId });
  if (bar !== undefined) return obstacle("NODE_BARRED", `${barWords(volume, bar)}; ${barBlock(volume, bar).clearWith}`);
  if (volume.intent !== undefined && !joins(volume, claim))
    return obstacle("VOLUME_BUSY", `${name} has a call in progress (${volume.intent.op} ${volume.intent.node ?? ""})`);
  const unowned = besideUnowned(volume, claim);
  if (unowned !== undefined)
    return obstacle("VOLUME_BUSY", `${name} is to be detached from node ${unowned.node} first, where no claim has it`);
  if (expandsBeforeGrants(volume))
    return obstacle("VOLUME_BUSY", `${name} is to be expanded first, while no node has it`);
  const standing = volume.attachments[claim.node];
  const waits = standing === undefined && facts.attaches === "yes" ? nodeThatWaits(volume, claim.node) : undefined;
  if (waits !== undefined) return obstacle("VOLUME_BUSY", attachGoesFirst(volume, waits));
  if (standing !== undefined && isOfOtherMachine(standing, facts))
    return obstacle(
      "NODE_NOT_READY",
      `${name} is still held by machine ${standing.machineId}, which was ${claim.node}`,
    );
  if (standing?.state === "DETACHING")
    return obstacle("VOLUME_BUSY", `${name} is being detached from node ${claim.node}`);
  const lack = standing === undefined ? slotsLacking(volume.plugin, claim, facts, taken) : undefined;
  return lack && { ...obstacle("ATTACH_LIMIT", lack.message), ...lack };
};

export type AttachFacts = Pick<
  GrantFacts,
  "attaches" | "nodeId" | "publishesReadOnly" | "pluginVersion" | "nodeEpoch" | "machineId"
>;

export const attachmentFor = (volume: VolumeRecord, claim: Claim, facts: AttachFacts): Attachment => ({
  node: claim.node,
  state: facts.attaches === "yes" ? "ATTACHING" : "ATTACHED",
  nodeId: facts.nodeId,
  needsCalls: facts.attaches === "yes",
  // CSI: only with PUBLISH_READONLY.
  ...(facts.publishesReadOnly === "yes" ? attachedFor(claim) : { readOnly: false }),
  ...useOf(claim),
  publishContext: {},
  ...(volume.secretRefs.controllerPublish === undefined ? {} : { secretRef: volume.secretRefs.controllerPublish }),
  pluginVersion: facts.pluginVersion,
  nodeEpoch: facts.nodeEpoch,
  ...(facts.machineId === undefined ? {} : { machineId: facts.machineId }),
});

/** Grants a queued claim: epoch, attachment and intent in one record, so that all are durable before any call (I4). */
export const grant = (volume: VolumeRecord, uid: string, facts: GrantFacts, at: Moment): Change => {
  const claim = volume.claims[uid];
  if (claim === undefined || obstacleTo(volume, claim, facts) !== undefined) return noChange(volume);
  const epoch = nextEpoch(volume.epoch, facts.storeGen);
  const standing = volume.attachments[claim.node];
  const attachment = standing ?? attachmentFor(volume, claim, facts);
  const attaching = attachment.state === "ATTACHING";
  const cell = claimMachine[claim.state][attaching ? "grant_attach" : "grant_offer"];
  if (cell !== "ATTACHING" && cell !== "OFFERED") return noChange(volume);
  const attaches = standing === undefined && attaching;
  const next: Claim = {
    ...claim,
    ...{ state: cell, epoch, nodeEpoch: facts.nodeEpoch },
    ...(attaches ? { ahead: at.opId } : {}), // PA1
  };
  const after = withClaim(
    {
      ...volume,
      epoch,
      attachments: { ...volume.attachments, [claim.node]: attachment },
      ...(attaches ? { intent: { op: "attach", node: claim.node, epoch, issuer: at.issuer, opId: at.opId } } : {}),
    },
    next,
    at.now,
  );
  return { volume: after, ended: [], notes: [claimNote(after, next)] };
};
