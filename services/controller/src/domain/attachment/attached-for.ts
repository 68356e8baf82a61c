/**
 * CSI of MULTI_NODE_SINGLE_WRITER: one node is used for writing, the rest are published read-only. With a plugin that knows PUBLISH_READONLY
 * that holds for attachments too, so an attachment is what its first claim needed, and stays so until it is detached.
 */
import { type AccessMode, accessRules } from "@holdfast/model/access";
import type { Claim } from "../claim/claim.ts";
import { holds } from "../claim/claim-machine.ts";
import type { VolumeRecord } from "../volume/volume.ts";

const oneNodeWrites = (mode: AccessMode): boolean => accessRules[mode].manyNodes && accessRules[mode].writers === "one";

/** How a claim's node is attached by a plugin with PUBLISH_READONLY. Elsewhere it follows the mode, so that all claims of a node agree. */
export const attachedFor = ({
  accessMode,
  readOnly,
}: Claim): { readonly readOnly: boolean; readonly forWriter?: true } => {
  if (!oneNodeWrites(accessMode)) return { readOnly: accessRules[accessMode].writers === "none" };
  return readOnly ? { readOnly: true } : { readOnly: false, forWriter: true };
};

/** Claims that keep an attachment beside which `claim` may not write, although they only read. */
export const keepAnotherFromWriting = (
  volume: VolumeRecord,
  claim: Claim,
): readonly { readonly claim: Claim; readonly why: string }[] => {
  if (!oneNodeWrites(claim.accessMode) || claim.readOnly) return [];
  return Object.values(volume.claims).flatMap((other) => {
    const attachment = volume.attachments[other.node];
    if (other.uid === claim.uid || attachment === undefined || !holds[other.state]) return [];
    if (other.node === claim.node)
      return attachment.readOnly
        ? [{ claim: other, why: `node ${other.node} has it attached read-only until its readers are gone` }]
        : [];
    return attachment.forWriter === true
      ? [{ claim: other, why: `node ${other.node} has it attached for a writer until all its claims are gone` }]
      : [];
  });
};
