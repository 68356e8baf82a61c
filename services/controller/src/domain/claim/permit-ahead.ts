/**
 * The permit of a claim may leave with the answer of its attach, beside the commit that stores that answer and not behind it.
 *
 * PA1 The grant that begins an attach marks its claim with the intent of that attach, so that the store knows before anything leaves: the
 *    permit may be at the agent although the claim is ATTACHING.
 * PA2 The permit leaves with an answer to that very intent alone, in the life that stored the intent and under the vetting of the grant; an
 *    answer that lets none leave takes the mark back. An attempt whose answer was not stored may have let it leave: after it nobody takes
 *    the mark back. Whoever takes the call over stores another intent, and does not either.
 * PA3 A claim with its mark is given up by the word of its agent alone, or by a fence: it is recalled (RELEASING), and its pair is not
 *    detached before that.
 */
import type { Vetting } from "@holdfast/model/vetting";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";
import type { Claim } from "./claim.ts";
import { clean } from "./claim-step.ts";
import { type Permit, permitFor } from "./permit.ts";

/** Its permit may be at the agent, although nothing says that it was offered. */
export const mayBeAhead = ({ state, ahead }: Claim): boolean => state === "ATTACHING" && ahead !== undefined;

/** No intent has this name. */
const forGood = "-";

const markedBy = (volume: VolumeRecord, opId: string): Claim | undefined =>
  Object.values(volume.claims).find((claim) => mayBeAhead(claim) && claim.ahead === opId);

const replaced = (volume: VolumeRecord, claim: Claim): VolumeRecord => ({
  ...volume,
  claims: { ...volume.claims, [claim.uid]: claim },
});

/** PA2: the claim whose permit an answer to the intent may let leave. */
export const claimAhead = (volume: VolumeRecord, opId: string, { gen }: Vetting): Claim | undefined => {
  const claim = markedBy(volume, opId);
  return claim?.epoch?.gen === gen ? claim : undefined;
};

/** PA2: the attempt is over, or never began, and the permit did not leave. */
export const keptBack = (volume: VolumeRecord, opId: string, vetting: Vetting): VolumeRecord => {
  const claim = claimAhead(volume, opId, vetting);
  if (claim === undefined) return volume;
  const { ahead: _kept, ...rest } = claim;
  return replaced(volume, rest);
};

/** PA2: the answer of an attempt before was not stored. */
export const leftPerhaps = (volume: VolumeRecord, opId: string): VolumeRecord => {
  const claim = markedBy(volume, opId);
  return claim === undefined ? volume : replaced(volume, { ...claim, ahead: forGood });
};

/** As ControllerPublish has left it. `secretRef`: the version of the secret that did it; its undo uses the same. */
export const attachedBy = (
  attachment: Attachment,
  publishContext: Readonly<Record<string, string>>,
  secretRef: string | undefined,
): Attachment => ({
  ...attachment,
  state: "ATTACHED",
  publishContext,
  ...(secretRef === undefined ? {} : { secretRef }),
});

/** The very permit that the claim has once the answer is stored. */
export const permitAhead = (
  volume: VolumeRecord,
  claim: Claim,
  { publishContext, secretRef }: Pick<Attachment, "publishContext" | "secretRef">,
  nodeEpoch: number,
): Permit | undefined => {
  const attachment = volume.attachments[claim.node];
  if (attachment?.state !== "ATTACHING") return undefined;
  const done = attachedBy(attachment, publishContext, secretRef);
  return permitFor({ ...volume, attachments: { ...volume.attachments, [claim.node]: done } }, clean(claim), nodeEpoch);
};
