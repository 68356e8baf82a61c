import { pausedFor } from "../../domain/attachment/attach-pause.ts";
import type { TakenSlots } from "../../domain/attachment/attach-pool.ts";
import type { SlotState } from "../../domain/attachment/slots.ts";
import type { Claim } from "../../domain/claim/claim.ts";
import { type GrantFacts, obstacleTo, unvettedWords } from "../../domain/claim/grant.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

/** Slots of the node that the other members of its set wait for together with it. */
export const besideIn = ({ ticket }: Claim, { slots, pool }: GrantFacts): TakenSlots => {
  const beside = (state: SlotState | undefined) => (state?.waiting.find((set) => set.ticket === ticket)?.need ?? 1) - 1;
  return { slots: beside(slots), pool: beside(pool) };
};

const refusedSlot = (volume: VolumeRecord, { node, attempts }: Claim): string =>
  attempts.lastError?.code === "RESOURCE_EXHAUSTED"
    ? `plugin ${volume.plugin} to take one more volume on node ${node}: it refused, and is asked again when one is detached there`
    : "";

const unvetted = (facts: GrantFacts): string => (facts.unvetted === undefined ? "" : unvettedWords(facts.unvetted));

const trouble = ({ pluginTrouble, callsHeld }: GrantFacts): string => pluginTrouble ?? callsHeld ?? "";

/** The node's agent cannot be asked now. */
const nodeAway = (claim: Claim, facts: GrantFacts): string =>
  unvetted(facts) || (facts.nodeReady ? "" : `node ${claim.node} is not ready`);

/** What a claim waits for, in one sentence; empty when it waits for nothing but the call under way. The facts are asked for where they tell. */
export const waitingFor = (volume: VolumeRecord, claim: Claim, factsNow: () => GrantFacts): string => {
  switch (claim.state) {
    case "QUEUED": {
      const facts = factsNow();
      return obstacleTo(volume, claim, facts, besideIn(claim, facts))?.message ?? "the other members of its set";
    }
    case "ATTACHING": {
      const facts = factsNow();
      return unvetted(facts) || trouble(facts) || pausedFor(volume, claim.node) || refusedSlot(volume, claim);
    }
    case "OFFERED":
      return nodeAway(claim, factsNow());
    case "ACTIVE":
      return claim.degradedSince === undefined ? "" : nodeAway(claim, factsNow());
    case "RELEASING":
      return claim.blocked === undefined ? "" : claim.blocked.missingProof;
    case "DETACHING":
      return volume.intent !== undefined && volume.intent.node !== claim.node
        ? `another call of the volume to end (${volume.intent.op})`
        : trouble(factsNow());
    case "RELEASED":
    case "FAILED":
    case "FENCED":
      return "";
  }
};
