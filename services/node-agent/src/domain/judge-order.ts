/** May this order be followed? The rules G3 and G4 of the protocol: the only guard that a storage backend cannot be. */
import { accessConflictOnNode } from "@holdfast/model/access";
import {
  compareEpochs,
  type Epoch,
  epochBelow,
  newerEpoch,
  sameEpoch,
  showEpoch,
  zeroEpoch,
} from "@holdfast/model/epoch";
import type { Vetting } from "@holdfast/model/vetting";
import { leapOfEpoch } from "./epoch-steps.ts";
import { promisedInError, promisedOf, whyOutdated } from "./promise.ts";
import type { AgentFacts, DeadEpoch, HeldClaim, MountFailure, PermitFacts, VolumeState } from "./types.ts";

export type RefusalReason =
  | "FLOOR"
  | "DEAD"
  | "NODE_EPOCH"
  | "GENERATION"
  | "QUARANTINED"
  | "ACCESS_CONFLICT"
  | "EPOCH_LEAP";

export interface Refusal {
  readonly kind: "refused";
  readonly reason: RefusalReason;
  readonly message: string;
  readonly floor?: Epoch;
  readonly holderClaimUid?: string;
  readonly nodeEpoch?: number;
}

export interface Standing {
  readonly agent: AgentFacts;
  readonly quarantined: boolean;
  readonly volume: VolumeState | undefined;
  /** What the store of the controller that orders was vetted as; undefined: an earlier version, or no controller asked. */
  readonly sender?: Vetting | undefined;
}

export type PermitJudgement =
  | Refusal
  /** Not held yet: journal it, then act. */
  | { readonly kind: "new"; readonly floor: Epoch }
  /** Held under this epoch: make it so again. */
  | { readonly kind: "repeat" }
  /** Ended without a mount before, and the answer may not have arrived. */
  | { readonly kind: "not-mounted"; readonly failure: MountFailure }
  /** Held under this epoch, with other parameters: nobody can say which are right. */
  | { readonly kind: "changed" };

export const judgePermit = (standing: Standing, facts: PermitFacts, oldestLive: Epoch): PermitJudgement => {
  const { agent, volume } = standing;
  const { epoch } = facts;
  const sender = standing.sender ?? { gen: epoch.gen, uid: "" };
  const stale = judgeOrigin({ ...standing, sender }, facts.nodeEpoch);
  if (stale !== undefined) return stale;
  const dead = deadAt(volume, epoch);
  if (dead !== undefined) {
    if (dead.failure !== undefined && dead.claimUid === facts.claimUid) {
      return { kind: "not-mounted", failure: dead.failure };
    }
    return { kind: "refused", reason: "DEAD", message: `epoch ${showEpoch(epoch)} was released here` };
  }
  const held = volume?.claims[facts.claimUid];
  if (held !== undefined && sameEpoch(held.facts.epoch, epoch)) {
    const again = judgeRepeat(held, facts);
    // What ends without a mount is brought to its end, whatever the floor says by now.
    if (again.kind !== "repeat" || held.failure !== undefined) return again;
  }
  const floor = volume?.floor ?? zeroEpoch;
  if (compareEpochs(epoch, floor) <= 0) {
    const message = `epoch ${showEpoch(epoch)} is not above the floor ${showEpoch(floor)}: a newer grant has been seen`;
    return { kind: "refused", reason: "FLOOR", message, floor };
  }
  if (held !== undefined && sameEpoch(held.facts.epoch, epoch)) return { kind: "repeat" };
  const leap = leapOfEpoch(agent.promisedGen, volume, epoch);
  if (leap !== undefined) {
    const message = `the permit is not honoured: ${leap}; no controller grants such an epoch: look at who sent it`;
    return { kind: "refused", reason: "EPOCH_LEAP", message };
  }
  const holder = holderAgainst(volume, facts);
  if (holder !== undefined) return holder;
  return { kind: "new", floor: newerEpoch(floor, epochBelow(oldestLive)) };
};

const judgeRepeat = (held: HeldClaim, facts: PermitFacts): PermitJudgement => {
  if (held.goal === "released" && held.failure === undefined) {
    const message = `the release of epoch ${showEpoch(facts.epoch)} has begun here`;
    return { kind: "refused", reason: "DEAD", message };
  }
  return held.facts.digest === facts.digest ? { kind: "repeat" } : { kind: "changed" };
};

/** I1 on this host: also against a claim that is on its way out, until it is gone. */
const holderAgainst = (volume: VolumeState | undefined, facts: PermitFacts): Refusal | undefined => {
  for (const held of Object.values(volume?.claims ?? {})) {
    const why =
      held.facts.claimUid === facts.claimUid
        ? `the claim itself is held under epoch ${showEpoch(held.facts.epoch)}`
        : accessConflictOnNode(facts, held.facts);
    if (why === undefined) continue;
    const message = `claim ${held.facts.claimUid} of workload ${held.facts.workload} holds the volume here: ${why}; release it first`;
    return { kind: "refused", reason: "ACCESS_CONFLICT", message, holderClaimUid: held.facts.claimUid };
  }
  return undefined;
};

export type ReleaseJudgement =
  | Refusal
  /** Released before: the same answer again. */
  | { readonly kind: "released" }
  /** Held: unpublish, unstage after the last, verify, journal. */
  | { readonly kind: "held" }
  /** Its permit never came: once nothing of it is found, the epoch is journalled dead. */
  | { readonly kind: "unseen" };

export const judgeRelease = (
  standing: Standing,
  order: { readonly claimUid: string; readonly epoch: Epoch; readonly nodeEpoch: number },
): ReleaseJudgement => {
  const { volume, agent } = standing;
  // After a number that was promised in error the releases are the way back.
  const sender = standing.sender && promisedInError(promisedOf(agent), standing.sender) ? undefined : standing.sender;
  // A node in quarantine takes releases: that is how it becomes clean.
  const stale = judgeOrigin({ ...standing, sender, quarantined: false }, order.nodeEpoch);
  if (stale !== undefined) return stale;
  const held = volume?.claims[order.claimUid];
  if (held !== undefined) {
    if (compareEpochs(order.epoch, held.facts.epoch) >= 0) return { kind: "held" };
    // Whoever asks knows less than the journal; "released" would let it detach what is mounted (I2).
    const message = `the claim is held under the newer epoch ${showEpoch(held.facts.epoch)}`;
    return { kind: "refused", reason: "FLOOR", message, floor: held.facts.epoch };
  }
  return deadAt(volume, order.epoch) !== undefined ? { kind: "released" } : { kind: "unseen" };
};

/** Growing is no grant: only whose order it is counts. */
export const judgeExpand = (standing: Standing, nodeEpoch: number): Refusal | undefined =>
  judgeOrigin(standing, nodeEpoch);

const judgeOrigin = ({ agent, quarantined, sender }: Standing, nodeEpoch: number): Refusal | undefined => {
  if (quarantined) {
    return { kind: "refused", reason: "QUARANTINED", message: "the node was fenced and is not clean yet" };
  }
  const outdated = sender && whyOutdated(promisedOf(agent), sender);
  if (outdated !== undefined) return { kind: "refused", reason: "GENERATION", message: outdated };
  if (nodeEpoch === agent.nodeEpoch) return undefined;
  const message = `the order is for node epoch ${nodeEpoch}, this is ${agent.nodeEpoch}`;
  return { kind: "refused", reason: "NODE_EPOCH", message, nodeEpoch: agent.nodeEpoch };
};

const deadAt = (volume: VolumeState | undefined, epoch: Epoch): DeadEpoch | undefined =>
  volume?.dead.find((it) => sameEpoch(it.epoch, epoch));
