/** Whether a node may have what NodePublishVolume is told for a claim: tokens, and the permit with its secrets. */
import { type Epoch, sameEpoch, showEpoch } from "@holdfast/model/epoch";
import type { NodeRecord } from "../node/node.ts";
import { speaksFor } from "../node/pending-life.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim, ClaimState } from "./claim.ts";
import { isOfOtherMachine } from "./grant.ts";
import { type Permit, permitFor } from "./permit.ts";

/** Total: in which states a permit is out, and not being taken back. */
const isOut: Readonly<Record<ClaimState, boolean>> = {
  QUEUED: false,
  ATTACHING: false,
  OFFERED: true,
  ACTIVE: true,
  RELEASING: false,
  DETACHING: false,
  RELEASED: false,
  FAILED: false,
  FENCED: false,
};

export interface TokenAsk {
  readonly claimUid: string;
  readonly epoch: Epoch;
  /** The process that asks. */
  readonly instance: string;
}

/** The permit of the claim as it stands, or why that node gets nothing for it. */
export const tokenRight = (
  volume: VolumeRecord | undefined,
  node: NodeRecord,
  { claimUid, epoch, instance }: TokenAsk,
): Permit | string => {
  const claim: Claim | undefined = volume?.claims[claimUid];
  // That a claim of another node is there is nothing that this one has to know.
  if (volume === undefined || claim?.node !== node.name) return "it has no such claim";
  if (node.instance !== instance) return `process ${instance} is not the one that is registered`;
  if (claim.epoch === undefined || !sameEpoch(claim.epoch, epoch))
    return `it is not granted under epoch ${showEpoch(epoch)}`;
  if (claim.goal !== "active" || !isOut[claim.state]) return `it is ${claim.state}, and is to be released`;
  const attachment = volume.attachments[node.name];
  if (!speaksFor(node, claim) || (attachment !== undefined && isOfOtherMachine(attachment, node)))
    return "it was granted to an earlier life of the node";
  return permitFor(volume, claim, node.nodeEpoch) ?? "its volume is not attached there";
};
