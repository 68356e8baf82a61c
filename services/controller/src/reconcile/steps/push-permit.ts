/** A permit on its way to the agent of its node. */
import type { Vetting } from "@holdfast/model/vetting";
import { isOfOtherMachine } from "../../domain/claim/grant.ts";
import type { Permit, PublishAnswer } from "../../domain/claim/permit.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { speaksFor } from "../../domain/node/pending-life.ts";
import type { Failure } from "../../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { failureOf } from "../owed/under-intent.ts";
import type { PushedPermit } from "./led-permits.ts";
import type { StepDeps } from "./step-run.ts";

export const pushPermit = (
  { agents, signal }: Pick<StepDeps, "agents" | "signal">,
  node: NodeRecord,
  permit: Permit,
  vetting: Vetting,
): PushedPermit => {
  const attempt = permit.claim.attempts.count + 1;
  const answer = agents
    .publish(node, permit, { signal, vetting, attempt })
    .catch((error: unknown): PublishAnswer => ({ kind: "uncertain", ...failureOf(error) }));
  return { node, permit, answer };
};

/** I2, I7: that a machine is silent and another has its name proves nothing of what the first has mounted. */
export const replacedNode = (volume: VolumeRecord, uid: string, record: NodeRecord): Failure | undefined => {
  const { name, machineId } = record;
  const claim = volume.claims[uid];
  if (claim !== undefined && !speaksFor(record, claim)) {
    const message = `claim ${uid} was granted to an earlier life of node ${name} (node epoch ${claim.nodeEpoch}); the life that has the name now (node epoch ${record.nodeEpoch}) knows nothing of it`;
    return { reason: "NODE_PENDING", message, advice: "block" };
  }
  const attachment = volume.attachments[name];
  if (attachment === undefined || !isOfOtherMachine(attachment, record)) return undefined;
  const message = `node ${name} is machine ${machineId} now, and ${volumeKey(volume)} was given to machine ${attachment.machineId}`;
  return { reason: "NODE_REPLACED", message, advice: "block" };
};
