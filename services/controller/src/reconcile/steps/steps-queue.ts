import type { Claim } from "../../domain/claim/claim.ts";
import {
  expireSet,
  grantSet,
  lacksOnlySlots,
  memberKey,
  type SetChange,
  type VolumesByKey,
} from "../../domain/claim/claim-set-change.ts";
import { obstacleTo, queueOf } from "../../domain/claim/grant.ts";
import type { Moment } from "../../domain/moment.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import type { Expects } from "../../records/volume/change-options.ts";
import { refOfKey } from "../../records/volume/volume-codec.ts";
import type { StepDeps, StepHandler } from "./step-run.ts";

/** Decides over all volumes of a claim's set and stores it in one commit. */
const changeSet = async (
  { records }: StepDeps,
  volume: VolumeRecord,
  claim: Claim,
  traceId: string | undefined,
  decide: (volumes: VolumesByKey, at: Moment) => SetChange,
  expects?: Expects,
): Promise<boolean> => {
  const refs = [...new Set([volumeKey(volume), ...claim.set.map(memberKey)])].map(refOfKey);
  const results = await records.changeMany(
    refs,
    (volumes, at) => {
      const byKey = new Map(volumes.flatMap((v) => (v === undefined ? [] : [[volumeKey(v), v] as const])));
      const changes = decide(byKey, at);
      return refs.map((ref) => changes.get(volumeKey(ref)));
    },
    { traceId, expects },
  );
  return results.some((r) => r.changed);
};

/** A member that was released meanwhile says nothing of the others, and its volume does not end their wait. */
const stillWaiting = (volumes: VolumesByKey, { set }: Claim): readonly string[] =>
  set.filter((m) => volumes.get(memberKey(m))?.claims[m.uid]?.state === "QUEUED").map(memberKey);

/**
 * Grants the first claim of the queue that can be, with its whole set: hand-overs first, then by ticket. What stands in the way of a claim
 * wakes the volume when it goes, so that a wait costs nothing; nothing is granted while the store is unvetted (I8).
 */
export const grantStep: StepHandler<"grant"> = async (deps, _step, { volume, traceId }) => {
  if (!deps.gate.state(volume.plugin).open) return false;
  const { slots } = deps.records;
  for (const claim of queueOf(volume)) {
    if (claim.attempts.nextTry > deps.clock.now()) continue;
    // Asked of what is known first: most of a queue waits, and should not be read again and again.
    const obstacle = obstacleTo(volume, claim, deps.factsOf(volume.plugin, claim.node));
    if (obstacle !== undefined && obstacle.reason !== "ATTACH_LIMIT") {
      slots.leave(claim.ticket);
      continue;
    }
    const judged = nodeJudgement(deps.nodes, claim.node);
    const decide = (volumes: VolumesByKey, at: Moment): SetChange => {
      judged.look();
      const grant = grantSet(volumes, claim.set, deps.factsOf, at);
      // In the turn in which it was decided, so that no room that is made meanwhile is missed.
      if (lacksOnlySlots(grant))
        slots.wait({ ticket: claim.ticket, volumes: stillWaiting(volumes, claim), needs: grant.needs });
      else if (grant.blocking.length > 0) slots.leave(claim.ticket);
      return grant.changes;
    };
    const granted = await changeSet(deps, volume, claim, traceId, decide, judged.expects);
    if (granted) return true;
  }
  return false;
};

/** The deadline of a claim that still waits: it ends, and its whole set with it. */
export const expireStep: StepHandler<"expire"> = async (deps, { uid }, { volume, traceId }) => {
  const claim = volume.claims[uid];
  if (claim === undefined) return false;
  return await changeSet(deps, volume, claim, traceId, (volumes, at) => expireSet(volumes, claim.set, at));
};
