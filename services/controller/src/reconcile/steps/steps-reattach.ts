import { reattachAnswered, reattachStarted } from "../../domain/attachment/owed-change.ts";
import { owes } from "../../domain/obligation/obligation.ts";
import { runOwed } from "../owed/run-owed.ts";
import { attachmentOf, owedVolumes, type StepHandler } from "./step-run.ts";

/**
 * ControllerPublishVolume once more, with the arguments of the first time, for an attachment that the backend has lost under its
 * users. Never while the store is unvetted: the record may be of a past in which the pair was attached.
 */
export const reattachStep: StepHandler<"reattach"> = async (deps, { node }, { volume, traceId }) => {
  const { plugins, gate, records } = deps;
  if (!gate.state(volume.plugin).open || !plugins.facts(volume.plugin).ready) return false;
  if (volume.intent === undefined)
    return (await records.change(volume, (v, at) => reattachStarted(v, node, at), { traceId })).changed;
  return await runOwed(owedVolumes(deps), volume, traceId, {
    point: "attach",
    request: { node, kind: "make", method: "ControllerPublishVolume" },
    attemptsOf: ({ attachments }) => attachments[node]?.owed?.attempts,
    stillRight: (now) => owes(now, "reattach", node) && gate.state(volume.plugin).open,
    call: (now, context) => plugins.publish(now, attachmentOf(now, node), context),
    answered: (v, outcome, at) => reattachAnswered(v, node, outcome, at),
  });
};
