import {
  modificationStarted,
  modified,
  modifyDoubted,
  modifyRefused,
  modifyUnknown,
} from "../../domain/volume/modify-change.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { answered, awayFailure, callUnder, notCalled, type StepHandler, stored } from "./step-run.ts";

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
    const settles = notCalled(deps, volume);
    const away = answered(settles, (v, at) => modifyUnknown(v, awayFailure(reason), at));
    return (await records.change(volume, away, { traceId, settles })).changed;
  }
  const repeat = (volume.modification?.attempts.count ?? 0) > 0;
  const request = { plugin: volume.plugin, kind: "make", method: "ControllerModifyVolume", repeat } as const;
  const stillRight = ({ intent: its, modification }: VolumeRecord): boolean =>
    its?.op === "modify" && modification !== undefined && gate.state().open;
  const answer = await slots.run(request, signal, () =>
    callUnder(deps, "modify", volume, stillRight, (now, context) => {
      const attempt = (now.modification?.attempts.count ?? 0) + 1;
      return plugins.modifyVolume(now, now.modification?.target ?? {}, { ...context, attempt });
    }),
  );
  if (answer === undefined) return false;
  const { unstored, outcome } = answer;
  const { changed } = await records.change(
    volume,
    answered(answer, (found, at) => {
      const v = unstored ? modifyDoubted(found, at) : found;
      if (outcome.kind === "done") return modified(v, at);
      return outcome.kind === "refused" ? modifyRefused(v, outcome.failure, at) : modifyUnknown(v, outcome.failure, at);
    }),
    { traceId, settles: answer },
  );
  stored(deps, volume);
  return changed;
};
