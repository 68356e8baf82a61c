import {
  attachAbandoned,
  attachExhausted,
  attached,
  attachPaused,
  attachRefused,
  attachUnknown,
  detached,
  detachStarted,
  detachUnknown,
} from "../domain/attach-change.ts";
import { attachResumed } from "../domain/attach-pause.ts";
import { blockedBy } from "../domain/blocked.ts";
import type { Change } from "../domain/change.ts";
import { doubted } from "../domain/doubt.ts";
import { isOfOtherMachine } from "../domain/grant.ts";
import type { Moment } from "../domain/moment.ts";
import type { Failure, Outcome } from "../domain/outcome.ts";
import { isOwnedSince, orphanOwned } from "../domain/owed-change.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../domain/volume.ts";
import { learnFromAttach } from "./learn-from-attach.ts";
import { changeWithSets } from "./set-failure.ts";
import { currentOf, leaving, ofIntent, type StepDeps, type StepHandler, settle, stored } from "./step-run.ts";

const attachFailed = (
  volume: VolumeRecord,
  node: string,
  outcome: Exclude<Outcome<unknown>, { readonly kind: "done" }>,
  at: Moment,
): Change => {
  const { failure } = outcome;
  if (failure.nodeFull === true) return attachExhausted(volume, node, failure, at);
  if (outcome.kind === "unknown") return attachUnknown(volume, node, failure, at);
  return failure.advice === "block"
    ? attachPaused(volume, node, failure, at)
    : attachRefused(volume, node, failure, at);
};

/**
 * ControllerPublishVolume for a grant that is durable (I4). Not while the store is unvetted: the grant may be of a past that
 * the store has returned to, and its attachment nobody's.
 */
export const attachStep: StepHandler<"attach"> = async (deps, { node, uid }, { volume, traceId }) => {
  const { plugins, slots, signal, gate, records } = deps;
  if (!gate.state().open || !plugins.facts(volume.plugin).ready) return false;
  if (volume.attachments[node]?.paused !== undefined)
    return (await records.change(volume, (v, at) => attachResumed(v, node, at), { traceId })).changed;
  const wanted = async () => {
    const now = await currentOf(deps, volume);
    const claim = now?.claims[uid];
    const attachment = now?.attachments[node];
    if (now === undefined || claim?.state !== "ATTACHING" || claim.goal !== "active") return undefined;
    if (attachment?.state !== "ATTACHING" || now.intent?.op !== "attach" || now.intent.node !== node) return undefined;
    return { now, claim, attachment, opId: now.intent.opId };
  };
  const request = {
    plugin: volume.plugin,
    node,
    kind: "make",
    method: "ControllerPublishVolume",
    repeat: (volume.claims[uid]?.attempts.count ?? 0) > 0,
    subject: volumeKey(volume),
  } as const;
  const stillWanted = async (): Promise<boolean> => (await wanted()) !== undefined;
  const answer = await slots.runIfWanted(request, stillWanted, signal, async () => {
    const found = await wanted();
    if (found === undefined) return undefined;
    const { now, claim, attachment, opId } = found;
    const unstored = leaving(deps, now);
    let secretRef: string | undefined;
    const usedSecret = (pinned: string): void => {
      secretRef = pinned;
    };
    const outcome = await settle(deps, "attach", () =>
      plugins.publish(now, attachment, { signal, attempt: claim.attempts.count + 1, claim: uid, usedSecret }),
    );
    return { opId, unstored, outcome, secretRef };
  });
  if (answer === undefined) return false;
  const { opId, unstored, outcome, secretRef } = answer;
  const decide = ofIntent(opId, (v, at) =>
    outcome.kind === "done"
      ? attached(v, node, outcome.value, at, secretRef)
      : attachFailed(unstored ? doubted(v, at) : v, node, outcome, at),
  );
  const changed =
    outcome.kind === "done"
      ? (await records.change(volume, decide, { traceId })).changed
      : await changeWithSets(records, volume, node, decide, { traceId });
  stored(deps, volume);
  await learnFromAttach(deps, volume, node, outcome);
  return changed;
};

/** Nobody wants it any more and no call is in flight: its undo becomes owed, in one commit. */
export const abandonStep: StepHandler<"abandon"> = async ({ records }, { uid }, { volume, traceId }) =>
  (await records.change(volume, (v, at) => attachAbandoned(v, uid, at), { traceId })).changed;

/**
 * I2 while the store is unvetted: the record may be older than a newer grant of the same pair, so the agent is asked first. It
 * holds nothing of the volume: the pair may be detached. It does not answer: wait.
 */
const provedUnused = async (deps: StepDeps, volume: VolumeRecord, node: string): Promise<boolean> => {
  if (deps.gate.state().open) return true;
  const view = deps.nodes.get(node);
  const attachment = volume.attachments[node];
  if (view === undefined || (attachment !== undefined && isOfOtherMachine(attachment, view.record.machineId)))
    return false;
  try {
    const { volumes } = await deps.agents.inventory(view.record, deps.signal);
    return volumes
      .filter((v) => v.volumeUid === volume.uid || (v.plugin === volume.plugin && v.externalId === volume.externalId))
      .every((v) => v.held.every((h) => h.state === "RELEASED"));
  } catch (error) {
    deps.signal.throwIfAborted();
    deps.log.warn("a detach waits: the store is not vetted and the agent does not tell what it holds", {
      volume: volumeKey(volume),
      node,
      error,
    });
    return false;
  }
};

/** CSI: ControllerUnpublish answering NOT_FOUND does not prove a detach; the backend's own word does. */
const confirmed = async (
  deps: StepDeps,
  volume: VolumeRecord,
  attachment: Attachment,
  outcome: Outcome<void>,
  attempt: number,
): Promise<Outcome<void>> => {
  if (outcome.kind === "done") return outcome;
  if (outcome.failure.advice !== "check-absence")
    // No refusal of an unpublish proves that anything is gone: the same call again, slowly, until it is OK.
    return outcome.kind === "refused" ? { kind: "unknown", failure: { ...outcome.failure, advice: "block" } } : outcome;
  const unproved: Outcome<void> = { kind: "unknown", failure: { ...outcome.failure, advice: "block" } };
  // What a backend does not show yet, it may be about to attach: a call of ours that attaches had no answer (I5).
  if (deps.clock.now() < (attachment.lateAttachUntil ?? 0)) return unproved;
  const absent = await deps.plugins.attachmentAbsent(volume, attachment, { signal: deps.signal, attempt });
  return absent === "yes" ? { kind: "done", value: undefined } : unproved;
};

const detachFailed = (volume: VolumeRecord, node: string, failure: Failure, at: Moment): Change => {
  const waiting = Object.values(volume.claims).find((c) => c.node === node && c.state === "DETACHING");
  const known = (waiting ?? volume.attachments[node]?.owed)?.blocked;
  const blocked =
    failure.advice === "block" ? blockedBy("detach", failure, { ...volume, node }, known, at.now) : undefined;
  return detachUnknown(volume, node, failure, blocked, at);
};

/** ControllerUnpublishVolume until it is known to be done. Only ever after a proof of release, which the state carries (I2). */
export const detachStep: StepHandler<"detach"> = async (deps, { node, uid }, { volume, traceId }) => {
  const { plugins, slots, signal, records } = deps;
  if (isOwnedSince(volume, node))
    return (await records.change(volume, (v, at) => orphanOwned(v, node, at), { traceId })).changed;
  if (volume.intent === undefined)
    return (await records.change(volume, (v, at) => detachStarted(v, node, at), { traceId })).changed;
  if (!plugins.facts(volume.plugin).ready || !(await provedUnused(deps, volume, node))) return false;
  const request = {
    plugin: volume.plugin,
    node,
    kind: "remove",
    method: "ControllerUnpublishVolume",
    repeat: ((volume.claims[uid] ?? volume.attachments[node]?.owed)?.attempts.count ?? 0) > 0,
  } as const;
  const proved = await slots.run(request, signal, async () => {
    const now = await currentOf(deps, volume);
    const attachment = now?.attachments[node];
    if (now?.intent?.op !== "detach" || now.intent.node !== node || attachment?.state !== "DETACHING") return undefined;
    if (isOwnedSince(now, node)) return undefined;
    const attempt = ((now.claims[uid] ?? attachment.owed)?.attempts.count ?? 0) + 1;
    const answer = await settle(deps, "detach", () =>
      plugins.unpublish(now, attachment, { signal, attempt, claim: uid }),
    );
    return { opId: now.intent.opId, outcome: await confirmed(deps, now, attachment, answer, attempt) };
  });
  if (proved === undefined) return false;
  const { opId, outcome } = proved;
  const result = await records.change(
    volume,
    ofIntent(opId, (v, at) =>
      outcome.kind === "done" ? detached(v, node, at) : detachFailed(v, node, outcome.failure, at),
    ),
    { traceId },
  );
  return result.changed;
};
