import { blockOfAgent } from "../../domain/blocked.ts";
import { blockedBy } from "../../domain/blocked-by.ts";
import { type Change, followedBy, noChange } from "../../domain/change.ts";
import type { Publication } from "../../domain/claim/claim.ts";
import {
  notMounted,
  permitRefused,
  publicationLost,
  published,
  publishUnknown,
  released,
  releaseUnknown,
} from "../../domain/claim/claim-change.ts";
import { tellingShortDevices, wantedOn } from "../../domain/claim/device-size.ts";
import { type Permit, type PublishAnswer, permitFor, type ReleaseAnswer } from "../../domain/claim/permit.ts";
import type { Moment } from "../../domain/moment.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { pendingBlock } from "../../domain/node/pending-life.ts";
import { type Ending, endingOf, type Failure } from "../../domain/outcome.ts";
import { type GrowAnswer, growthAnswered } from "../../domain/size/growth-change.ts";
import { healthSeen } from "../../domain/volume/health-change.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { takesWork } from "../../records/grant-facts.ts";
import { pushPermit, replacedNode } from "./push-permit.ts";
import { pushRelease } from "./push-release.ts";
import { changeWithSets } from "./set-failure.ts";
import type { StepHandler } from "./step-run.ts";

const failed = (answer: Ending, advice: Failure["advice"]): Failure => ({ ...endingOf(answer), advice });

/** What has become of the growth that the permit brought along is stored with the publication. */
const grownWith = (
  change: Change,
  node: string,
  expandTo: Permit["expandTo"],
  answer: GrowAnswer | undefined,
  at: Moment,
): Change => {
  if (expandTo === undefined || answer === undefined) return change;
  return followedBy(change, (volume) => growthAnswered(volume, node, expandTo.required, answer, at));
};

type PublishedAnswer = Extract<PublishAnswer, { kind: "published" }>;

/** By the size that the volume had when the permit was made: the device cannot have followed what came since. */
const publicationOf = (
  { publication, deviceBytes: bytes, growth }: PublishedAnswer,
  { volume }: Permit,
  node: NodeRecord,
): Publication => {
  const { device } = publication;
  const wanted = wantedOn(volume, node.name, growth?.kind === "grown");
  const size = bytes === undefined || wanted === undefined ? {} : { size: { bytes, wanted } };
  const measured = device === undefined ? {} : { device: { ...device, ...size } };
  // In another boot, or with another journal, this publication is not there any more.
  return { ...publication, ...measured, bootId: node.bootId, journalUid: node.journalUid };
};

const publishOutcome = (
  volume: VolumeRecord,
  uid: string,
  node: NodeRecord,
  answer: PublishAnswer,
  permit: Permit,
  at: Moment,
): Change => {
  switch (answer.kind) {
    case "published": {
      const change = published(volume, uid, publicationOf(answer, permit, node), at);
      return tellingShortDevices(volume, grownWith(change, node.name, permit.expandTo, answer.growth, at));
    }
    case "not-mounted":
      return notMounted(volume, uid, failed(answer, "fail"), at);
    case "refused": {
      const failure = failed(answer, "block");
      const claim = volume.claims[uid];
      const subject = { ...volume, node: node.name, ...(claim && { workload: claim.workload, alias: claim.alias }) };
      const blocked = blockedBy("publish", failure, subject, claim?.blocked, at.now);
      return permitRefused(volume, uid, failure, blocked, at);
    }
    case "uncertain": {
      const known = volume.claims[uid]?.blocked;
      const { message, reason, blocked: block } = answer;
      const blocked = block && blockOfAgent({ message, reason, block }, { ...volume, node: node.name }, known, at.now);
      return publishUnknown(volume, uid, failed(answer, blocked ? "block" : "again"), blocked, at);
    }
  }
};

/** What the plugin said of the volume after a failure is stored with it, as the view of that node. */
const withHealth = (change: Change, node: string, answer: PublishAnswer, at: Moment): Change => {
  const health = "health" in answer ? answer.health : undefined;
  if (health === undefined) return change;
  return followedBy(change, (volume) => healthSeen(volume, `node ${node}`, health, at));
};

/** What only that very node, or a person's word about it, can show. */
const nodeBlock = (
  step: "publish" | "release",
  volume: VolumeRecord,
  uid: string,
  record: NodeRecord,
  failure: Failure,
  at: Moment,
) => {
  const claim = volume.claims[uid];
  const node = record.name;
  const { machineId = "" } = volume.attachments[node] ?? {};
  const subject = {
    ...volume,
    node,
    machineId,
    life: record.pending?.life ?? record.life ?? "",
    claimUid: uid,
    workload: claim?.workload ?? "",
    alias: claim?.alias ?? volume.id,
  };
  return blockedBy(step, failure, subject, claim?.blocked, at.now);
};

/** Pushes the permit of a claim whose attachment is done. A repeat under the same epoch means "make it so again". */
export const offerStep: StepHandler<"offer"> = async (deps, { node: name, uid }, { volume, vetting, traceId }) => {
  const { nodes, gate, records, signal, failpoint } = deps;
  const node = nodes.get(name);
  const claim = volume.claims[uid];
  if (!gate.state(volume.plugin).open || !takesWork(node) || claim === undefined) return false;
  const gone = replacedNode(volume, uid, node.record);
  if (gone !== undefined)
    return (
      await records.change(volume, (v, at) =>
        publishUnknown(v, uid, gone, nodeBlock("publish", v, uid, node.record, gone, at), at),
      )
    ).changed;
  const led = deps.led.get(claim);
  const permit = led?.permit ?? permitFor(volume, claim, node.record.nodeEpoch);
  if (permit === undefined) return false;
  await failpoint("controller.offer.after-commit");
  signal.throwIfAborted();
  const { node: to, answer: awaited } = led ?? pushPermit(deps, node.record, permit, vetting);
  const answer = await awaited;
  signal.throwIfAborted();
  await failpoint("controller.offer.after-call");
  const decide = (v: VolumeRecord, at: Moment) =>
    withHealth(publishOutcome(v, uid, to, answer, permit, at), name, answer, at);
  if (answer.kind !== "published" && answer.kind !== "uncertain")
    return (await changeWithSets(records, volume, name, decide, { traceId })).changed;
  const { changed } = await records.change(volume, decide, { traceId });
  // Whoever followed up the node's new life may have read the record before this was in it.
  if (answer.kind === "published" && livesAnew(nodes.get(name)?.record, to))
    await records.change(volume, (v, at) => (v.uid === volume.uid ? publicationLost(v, uid, at) : noChange(v)));
  return changed;
};

/** A mount does not outlive its boot, nor a permit its journal. */
const livesAnew = (now: NodeRecord | undefined, then: NodeRecord): boolean =>
  now !== undefined && (now.bootId !== then.bootId || now.journalUid !== then.journalUid);

const releaseOutcome = (
  volume: VolumeRecord,
  uid: string,
  record: NodeRecord,
  answer: ReleaseAnswer,
  silent: boolean,
  at: Moment,
): Change => {
  if (answer.kind === "released") return released(volume, uid, at, answer.unmounted);
  // It may be back in a moment or never, and no clock tells which (I7): until then a person can.
  if (silent && answer.kind === "pending" && !answer.blocked) {
    const waiting = pendingBlock(record);
    const why = waiting === undefined ? { ...answer, reason: "NODE_SILENT" } : waiting;
    const gone = failed(why, "again");
    return releaseUnknown(volume, uid, gone, nodeBlock("release", volume, uid, record, gone, at), at);
  }
  const stuck = answer.kind === "pending" && answer.blocked;
  const failure = failed(answer, stuck ? "block" : "again");
  const known = volume.claims[uid]?.blocked;
  const blocked = stuck ? blockOfAgent(answer, { ...volume, node: record.name }, known, at.now) : undefined;
  return releaseUnknown(volume, uid, failure, blocked, at);
};

/** Asks the agent to let go until it answers RELEASED, which is the proof. A silent node is asked too: only it can answer. */
export const releaseStep: StepHandler<"release"> = async (deps, { node: name, uid }, { volume, vetting, traceId }) => {
  const { nodes, records, signal, failpoint } = deps;
  const node = nodes.get(name);
  const claim = volume.claims[uid];
  if (node === undefined || claim?.epoch === undefined) return false;
  const gone = replacedNode(volume, uid, node.record);
  if (gone !== undefined)
    return (
      await records.change(volume, (v, at) =>
        releaseUnknown(v, uid, gone, nodeBlock("release", v, uid, node.record, gone, at), at),
      )
    ).changed;
  await failpoint("controller.release.after-commit");
  signal.throwIfAborted();
  const { epoch } = claim;
  const led = deps.ledReleases.get(claim);
  const answer = await (led ?? pushRelease(deps, volume, { ...claim, epoch }, node.record, vetting));
  signal.throwIfAborted();
  await failpoint("controller.release.after-call");
  const silent = nodes.get(name)?.live === "suspect";
  const decide = (v: VolumeRecord, at: Moment) =>
    releaseOutcome(v, uid, nodes.get(name)?.record ?? node.record, answer, silent, at);
  return (await records.change(volume, decide, { traceId })).changed;
};
