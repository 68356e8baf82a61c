import { modificationStarted, modified, modifyDoubted, modifyRefused, modifyUnknown } from "../domain/modify-change.ts";
import { awayFailure, currentOf, leaving, ofIntent, type StepHandler, settle, stored } from "./step-run.ts";

/** ControllerModifyVolume with the keys that change, the same call until its answer is certain. */
export const modifyStep: StepHandler<"modify"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, gate, records } = deps;
  if (!gate.state().open) return false;
  const { ready, reason, modifiesVolumes } = plugins.facts(volume.plugin);
  const { intent, modification: wish } = volume;
  if (intent === undefined) {
    if (!ready && modifiesVolumes === "yes") return false;
    return (await records.change(volume, (v, at) => modificationStarted(v, modifiesVolumes, at), { traceId })).changed;
  }
  if (!ready) {
    if (wish?.state !== "CALLING") return false;
    const away = ofIntent(intent.opId, (v, at) => modifyUnknown(v, awayFailure(reason), at));
    return (await records.change(volume, away, { traceId })).changed;
  }
  const repeat = (volume.modification?.attempts.count ?? 0) > 0;
  const request = { plugin: volume.plugin, kind: "make", method: "ControllerModifyVolume", repeat } as const;
  const answer = await slots.run(request, signal, async () => {
    const now = await currentOf(deps, volume);
    const modification = now?.modification;
    if (now?.intent?.op !== "modify" || modification === undefined) return undefined;
    const unstored = leaving(deps, now);
    const attempt = modification.attempts.count + 1;
    const outcome = await settle(deps, "modify", () =>
      plugins.modifyVolume(now, modification.target, { signal, attempt }),
    );
    return { opId: now.intent.opId, unstored, outcome };
  });
  if (answer === undefined) return false;
  const { opId, unstored, outcome } = answer;
  const { changed } = await records.change(
    volume,
    ofIntent(opId, (found, at) => {
      const v = unstored ? modifyDoubted(found, at) : found;
      if (outcome.kind === "done") return modified(v, at);
      return outcome.kind === "refused" ? modifyRefused(v, outcome.failure, at) : modifyUnknown(v, outcome.failure, at);
    }),
    { traceId },
  );
  stored(deps, volume);
  return changed;
};
