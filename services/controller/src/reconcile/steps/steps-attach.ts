import { judgeVetting } from "@holdfast/model/vetting";
import {
  attachAbandoned,
  attachAnswered,
  attachFinished,
  detachAnswered,
  detachStarted,
  finishAnswered,
} from "../../domain/attachment/attach-change.ts";
import { attachResumed } from "../../domain/attachment/attach-pause.ts";
import { isOwnedSince, orphanOwned } from "../../domain/attachment/owed-change.ts";
import { isOfOtherMachine } from "../../domain/claim/grant.ts";
import { keptBack } from "../../domain/claim/permit-ahead.ts";
import { owes } from "../../domain/obligation/obligation.ts";
import { afterCall } from "../../domain/open-call.ts";
import type { Attempts, Outcome } from "../../domain/outcome.ts";
import { heldBack } from "../../domain/steps.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import { runOwed, withoutCall } from "../owed/run-owed.ts";
import { notCalled } from "../owed/under-intent.ts";
import { asItStands, leadPermit } from "./lead-permit.ts";
import { learnFromAttach } from "./learn-from-attach.ts";
import { changeWithSets } from "./set-failure.ts";
import { attachmentOf, owedVolumes, type StepDeps, type StepHandler } from "./step-run.ts";

/**
 * ControllerPublishVolume for a grant that is durable (I4). Not while the store is unvetted: the grant may be of a past that
 * the store has returned to, and its attachment nobody's.
 */
export const attachStep: StepHandler<"attach"> = async (deps, { node, uid }, { volume, vetting, traceId }) => {
  const { plugins, gate, records } = deps;
  if (!gate.state(volume.plugin).open || !plugins.facts(volume.plugin).ready) return false;
  if (volume.attachments[node]?.paused !== undefined)
    return (await records.change(volume, (v, at) => attachResumed(v, node, at), { traceId })).changed;
  let secretRef: string | undefined;
  const usedSecret = (pinned: string): void => {
    secretRef = pinned;
  };
  let storing = asItStands;
  return await runOwed(owedVolumes(deps), volume, traceId, {
    point: "attach",
    request: { node, kind: "make", method: "ControllerPublishVolume", subject: volumeKey(volume) },
    attemptsOf: ({ claims }) => claims[uid]?.attempts,
    stillRight(now) {
      const claim = now.claims[uid];
      const wanted = claim?.state === "ATTACHING" && claim.goal === "active";
      return (
        wanted && owes(now, "attach", node) && gate.state(volume.plugin).open && !heldBack(now, { do: "attach", node })
      );
    },
    call: (now, context) => plugins.publish(now, attachmentOf(now, node), { ...context, claim: uid, usedSecret }),
    async ended(attempt) {
      storing = await leadPermit(deps, volume, { attempt, vetting, secretRef });
    },
    answered: (v, outcome, at) => storing(v, (now) => attachAnswered(now, node, outcome, at, secretRef)),
    async store(outcome, decide, options) {
      const result =
        outcome.kind === "done"
          ? await records.change(volume, decide, options)
          : await changeWithSets(records, volume, node, decide, options);
      await learnFromAttach(deps, volume, node, outcome);
      return result;
    },
  });
};

/** Nobody wants it any more and no call is under way here: its undo becomes owed, in one commit. */
export const abandonStep: StepHandler<"abandon"> = async (deps, { node, uid }, { volume, vetting, traceId }) => {
  const { records, rights } = deps;
  const { intent } = volume;
  const called = notCalled(owedVolumes(deps), volume);
  // A call that this life was to make and never made holds nothing; any other one may be open, and is finished first.
  const unsent = intent?.node === node && intent.issuer === rights.issuer && intent.openSince === undefined;
  const settles = unsent && called.end === "not-sent" ? called : undefined;
  const decide: Decide = (v, at) => {
    if (settles === undefined || v.intent?.opId !== settles.opId) return attachAbandoned(v, uid, at);
    return attachAbandoned(keptBack(afterCall(v, "not-sent", at), settles.opId, vetting), uid, at);
  };
  return (await records.change(volume, decide, { traceId, settles })).changed;
};

/** Of a pair whose undo is owed, by a claim or for the attachment's own sake. */
const undoAttempts =
  (node: string, uid: string) =>
  ({ claims, attachments }: VolumeRecord): Attempts | undefined =>
    (claims[uid] ?? attachments[node]?.owed)?.attempts;

/**
 * The attach of a pair whose undo is owed already, once more with the same arguments at the same instance, until the plugin has answered
 * it: beside a call that may be open its opposite never leaves. Whatever the answer is, the detach follows.
 */
export const finishStep: StepHandler<"finish"> = async (deps, { node, uid }, { volume, traceId }) => {
  const { plugins, gate } = deps;
  const owed = owedVolumes(deps);
  const { intent } = volume;
  if (intent?.via === undefined || (intent.openSince === undefined && notCalled(owed, volume).end === "not-sent"))
    return await withoutCall(owed, volume, traceId, (v, at) => attachFinished(v, node, at));
  if (!gate.state(volume.plugin).open || !plugins.facts(volume.plugin).ready) return false;
  return await runOwed(owed, volume, traceId, {
    point: "attach",
    request: { node, kind: "make", method: "ControllerPublishVolume", repeat: true },
    attemptsOf: undoAttempts(node, uid),
    stillRight: (now) => owes(now, "finish", node) && gate.state(volume.plugin).open,
    call: (now, context) => plugins.publish(now, attachmentOf(now, node), { ...context, claim: uid }),
    answered: (v, outcome, at) => finishAnswered(v, node, outcome, at),
  });
};

/**
 * I2 while the store is unvetted: the record may be older than a newer grant of the same pair, so the agent is asked first, once it has
 * promised to follow no permit of the time before. It holds nothing of the volume: the pair may be detached. It does not answer: wait.
 */
const provedUnused = async (deps: StepDeps, volume: VolumeRecord, node: string): Promise<boolean> => {
  const { open, vetting } = deps.gate.state(volume.plugin);
  if (open) return true;
  const view = deps.nodes.get(node);
  const attachment = volume.attachments[node];
  if (view === undefined || (attachment !== undefined && isOfOtherMachine(attachment, view.record))) return false;
  try {
    const promised = await deps.agents.promise(view.record, vetting, deps.signal);
    if (!["same", "older"].includes(judgeVetting(vetting, promised.vetting))) return false;
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
  if (outcome.kind === "done" || outcome.failure.advice !== "check-absence") return outcome;
  // Nor does the backend's word beside a call that may be open: the plugin itself did not send this one.
  if (outcome.failure.call !== "ended") return outcome;
  const unproved: Outcome<void> = { kind: "unknown", failure: { ...outcome.failure, advice: "block" } };
  // What a backend does not show yet, it may be about to attach: a call of ours that attaches had no answer (I5).
  if (!deps.lateAttaches.isOver(volume.uid, attachment)) return unproved;
  const absent = await deps.plugins.attachmentAbsent(volume, attachment, { signal: deps.signal, attempt });
  return absent === "yes" ? { kind: "done", value: undefined } : unproved;
};

/** ControllerUnpublishVolume until it is known to be done. Only ever after a proof of release, which the state carries (I2). */
export const detachStep: StepHandler<"detach"> = async (deps, { node, uid }, { volume, traceId }) => {
  const { plugins, records, gate } = deps;
  if (isOwnedSince(volume, node))
    return (await records.change(volume, (v, at) => orphanOwned(v, node, at), { traceId })).changed;
  if (volume.intent === undefined)
    return (await records.change(volume, (v, at) => detachStarted(v, node, at), { traceId })).changed;
  deps.lateAttaches.isOver(volume.uid, volume.attachments[node]); // LA1
  const before = gate.state(volume.plugin);
  if (!plugins.facts(volume.plugin).ready || !(await provedUnused(deps, volume, node))) return false;
  /** The record that is read last may be of a store that has forgotten a grant since: what was proved of another one proves nothing. */
  const stillProved = (): boolean => {
    const { open, vetting } = gate.state(volume.plugin);
    return open || (!before.open && vetting === before.vetting);
  };
  return await runOwed(owedVolumes(deps), volume, traceId, {
    point: "detach",
    request: { node, kind: "remove", method: "ControllerUnpublishVolume" },
    attemptsOf: undoAttempts(node, uid),
    stillRight: (now) =>
      owes(now, "detach", node) && !isOwnedSince(now, node) && !heldBack(now, { do: "detach", node }) && stillProved(),
    async call(now, context) {
      const attachment = attachmentOf(now, node);
      const answer = await plugins.unpublish(now, attachment, { ...context, claim: uid });
      return await confirmed(deps, now, attachment, answer, context.attempt);
    },
    answered: (v, outcome, at) => detachAnswered(v, node, outcome, at),
  });
};
