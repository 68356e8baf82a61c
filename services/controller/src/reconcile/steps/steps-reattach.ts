import { attachTrouble } from "../../domain/attachment/attach-pause.ts";
import { reattached, reattachFailed, reattachStarted } from "../../domain/attachment/owed-change.ts";
import { blockedBy } from "../../domain/blocked.ts";
import { neverSent } from "../../domain/outcome.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { answered, attachmentOf, callUnder, type StepHandler, stored } from "./step-run.ts";

/**
 * ControllerPublishVolume once more, with the arguments of the first time, for an attachment that the backend has lost under its
 * users. Never while the store is unvetted: the record may be of a past in which the pair was attached.
 */
export const reattachStep: StepHandler<"reattach"> = async (deps, { node }, { volume, traceId }) => {
  const { plugins, slots, signal, gate, records } = deps;
  if (!gate.state().open || !plugins.facts(volume.plugin).ready) return false;
  if (volume.intent === undefined)
    return (await records.change(volume, (v, at) => reattachStarted(v, node, at), { traceId })).changed;
  const request = {
    plugin: volume.plugin,
    node,
    kind: "make",
    method: "ControllerPublishVolume",
    repeat: (volume.attachments[node]?.owed?.attempts.count ?? 0) > 0,
  } as const;
  const stillRight = (now: VolumeRecord): boolean => {
    const attachment = now.attachments[node];
    if (attachment?.state !== "ATTACHED" || attachment.owed?.why !== "missing" || !gate.state().open) return false;
    return now.intent?.op === "attach" && now.intent.node === node;
  };
  const answer = await slots.run(request, signal, () =>
    callUnder(deps, "attach", volume, stillRight, (now, context) => {
      const attachment = attachmentOf(now, node);
      return plugins.publish(now, attachment, { ...context, attempt: (attachment.owed?.attempts.count ?? 0) + 1 });
    }),
  );
  if (answer === undefined) return false;
  const { outcome } = answer;
  const result = await records.change(
    volume,
    answered(answer, (v, at) => {
      if (outcome.kind === "done") return reattached(v, node, outcome.value, at);
      const { failure } = outcome;
      const known = v.attachments[node]?.owed?.blocked;
      if (outcome.kind === "unknown") {
        const blocked =
          failure.advice === "block" ? blockedBy("attach", failure, { ...v, node }, known, at.now) : undefined;
        // What never left holds nothing: the volume's other calls need not wait for it.
        return reattachFailed(v, node, failure, blocked, neverSent(failure), at);
      }
      const trouble = attachTrouble(v, node, { ...failure, advice: "block" }, known, at.now);
      return reattachFailed(v, node, trouble.failure, trouble.blocked, true, at);
    }),
    { traceId, settles: answer },
  );
  stored(deps, volume);
  return result.changed;
};
