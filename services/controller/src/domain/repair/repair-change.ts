import { detached } from "../attachment/attach-change.ts";
import { type Change, endClaim, foldChanges, volumeNote } from "../change.ts";
import type { Claim, ClaimState } from "../claim/claim.ts";
import { failing, step } from "../claim/claim-step.ts";
import type { Moment } from "../moment.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../volume/volume.ts";

/**
 * What each repair verb may do in which state. A verb replaces one missing proof and nothing else: where the proof is not what is
 * missing, it says what to do instead.
 */

export type Cell = "apply" | { readonly instead: string };

const instead = (text: string): Cell => ({ instead: text });

/** AbandonClaim stands for the agent's proof of release; only a claim that waits for it has use for it. Total. */
export const abandonable: Record<ClaimState, Cell> = {
  QUEUED: instead("nothing was granted to it yet: release it"),
  ATTACHING: instead("its node was given nothing yet: release it; the plugin alone undoes the attachment"),
  OFFERED: instead("nobody wants it released yet: release it first, and abandon it when its node does not let go"),
  ACTIVE: instead("nobody wants it released yet: release it first, and abandon it when its node does not let go"),
  RELEASING: "apply",
  DETACHING: instead("its node has let go already; it waits for the detach (holdfast repair assert-detached)"),
  RELEASED: instead("it is over"),
  FAILED: instead("it is over"),
  FENCED: instead("it is over"),
};

/** AssertDetached stands for the plugin's proof of a detach; only an attachment that waits for it has use for it. Total. */
export const assertable: Record<Attachment["state"] | "none", Cell> = {
  none: instead("no record says that it is attached there"),
  ATTACHING: instead("it is being attached: release the claims on that node; the detach follows"),
  ATTACHED: instead("claims hold it there: release them first"),
  DETACHING: "apply",
};

const failureOf = (reason: string, message: string) => ({ reason, message, advice: "fail" as const });

/** The claim's node gave no proof; a person's word is taken for it. What follows is what follows a proof: the detach. */
export const claimAbandoned = (volume: VolumeRecord, claim: Claim, evidence: string, at: Moment): Change =>
  step(volume, claim.uid, "released", at, (c) =>
    failing(failureOf("CLAIM_ABANDONED", `given up without the proof of node ${claim.node}: ${evidence}`))(c),
  );

/** The backend gave no proof; a person's word is taken for it. */
export const detachAsserted = (volume: VolumeRecord, node: string, at: Moment): Change => detached(volume, node, at);

const endedAs = (volume: VolumeRecord) =>
  failing(failureOf("VOLUME_FORGOTTEN", `volume ${volumeKey(volume)} was forgotten`));

/** The record goes with everything in it, and its claims end. Nothing is called. */
export const volumeForgotten = (volume: VolumeRecord, at: Moment): Change => {
  const ended = foldChanges(volume, Object.values(volume.claims), (v, claim) =>
    endClaim(v, endedAs(volume)(claim), "FAILED", at.now),
  );
  return { volume: null, ended: ended.ended, notes: [...ended.notes, volumeNote(volume, "DELETED")] };
};

/** The claims that a detach of the node ends. */
export const waitingForDetach = (volume: VolumeRecord, node: string): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => c.node === node && c.state === "DETACHING");
