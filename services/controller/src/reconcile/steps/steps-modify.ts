import { owes } from "../../domain/obligation/obligation.ts";
import { modificationStarted, modifyAnswered } from "../../domain/volume/modify-change.ts";
import { runOwed, withoutCall } from "../owed/run-owed.ts";
import { away, owedVolumes, type StepHandler } from "./step-run.ts";

/** ControllerModifyVolume with the keys that change, the same call until its answer is certain. */
export const modifyStep: StepHandler<"modify"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, gate, records } = deps;
  const owed = owedVolumes(deps);
  if (!gate.state(volume.plugin).open) return false;
  const { ready, reason, modifiesVolumes } = plugins.facts(volume.plugin);
  if (volume.intent === undefined) {
    if (!ready && modifiesVolumes === "yes") return false;
    return (await records.change(volume, (v, at) => modificationStarted(v, modifiesVolumes, at), { traceId })).changed;
  }
  if (!ready)
    return (
      volume.modification?.state === "CALLING" &&
      (await withoutCall(owed, volume, traceId, (v, at) => modifyAnswered(v, away(reason), at)))
    );
  return await runOwed(owed, volume, traceId, {
    point: "modify",
    request: { kind: "make", method: "ControllerModifyVolume" },
    attemptsOf: ({ modification }) => modification?.attempts,
    stillRight: (now) => owes(now, "modify") && gate.state(volume.plugin).open,
    call: (now, context) => plugins.modifyVolume(now, now.modification?.target ?? {}, context),
    answered: modifyAnswered,
  });
};
