import { type Change, noChange } from "../../domain/change.ts";
import { isOfOtherMachine } from "../../domain/claim/grant.ts";
import { limitOf } from "../../domain/claim/permit.ts";
import { owes } from "../../domain/obligation/obligation.ts";
import { type ExpandedVolume, expandAnswered } from "../../domain/size/expand-answer.ts";
import { expansionStarted } from "../../domain/size/expand-change.ts";
import { isUnused } from "../../domain/size/growth.ts";
import { type GrowAnswer, growthAnswered, growthSettled } from "../../domain/size/growth-change.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { takesWork } from "../../records/grant-facts.ts";
import { expandPlanFor } from "../../records/volume/expand-facts.ts";
import { runOwed, withoutCall } from "../owed/run-owed.ts";
import { failureOf } from "../owed/under-intent.ts";
import { away, owedVolumes, type StepDeps, type StepHandler } from "./step-run.ts";

/** A refusal after an attempt that may have worked says nothing of the size; the backend itself may. */
const sizeAtBackend = async (
  { plugins, signal }: StepDeps,
  volume: VolumeRecord,
  attempt: number,
): Promise<ExpandedVolume | undefined> => {
  const found = await plugins.lookAt(volume, { signal, attempt }).catch(() => undefined);
  signal.throwIfAborted();
  // Whether nodes have to follow was in an answer that nobody has: they are asked to.
  return found === undefined || found.capacity === 0 ? undefined : { capacity: found.capacity, nodesFollow: true };
};

/**
 * ControllerExpandVolume for a wish that is durable (I4). Not while the store is unvetted: the record may not know of claims that use
 * the volume.
 */
export const expandStep: StepHandler<"expand"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, gate, records } = deps;
  const owed = owedVolumes(deps);
  const plan = expandPlanFor(volume.plugin, deps);
  if (!gate.state(volume.plugin).open) return false;
  const { ready, reason } = plugins.facts(volume.plugin);
  if (volume.intent === undefined) {
    if (!ready && (plan === "any-time" || plan === "only-unused" || plan === "assumed-unused")) return false;
    return (await records.change(volume, (v, at) => expansionStarted(v, plan, at), { traceId })).changed;
  }
  if (!ready)
    return (
      volume.expansion?.state === "CALLING" &&
      (await withoutCall(owed, volume, traceId, (v, at) => expandAnswered(v, away(reason), undefined, at)))
    );
  let known: ExpandedVolume | undefined;
  return await runOwed<VolumeRecord, Change, ExpandedVolume>(owed, volume, traceId, {
    point: "expand",
    request: { kind: "make", method: "ControllerExpandVolume" },
    attemptsOf: ({ expansion }) => expansion?.attempts,
    stillRight: (now) =>
      owes(now, "expand") && (now.expansion?.onlyUnused !== true || isUnused(now)) && gate.state(volume.plugin).open,
    async call(now, context) {
      const outcome = await plugins.expandVolume(now, now.expansion?.target ?? { required: 0, limit: 0 }, context);
      // Whether it is in doubt is judged where the answer is stored; asking once too often costs a question.
      if (outcome.kind === "refused") known = await sizeAtBackend(deps, now, context.attempt);
      return outcome;
    },
    answered: (v, outcome, at) => expandAnswered(v, outcome, known, at),
  });
};

/** NodeExpandVolume on one node that has the volume published; what it owes is in the record until it has answered. */
export const growStep: StepHandler<"grow"> = async (deps, { node: name }, { volume, vetting, traceId }) => {
  const { agents, nodes, gate, records, signal, failpoint } = deps;
  const node = nodes.get(name);
  const { growth } = volume;
  const attachment = volume.attachments[name];
  const claim = Object.values(volume.claims).find((c) => c.node === name && c.state === "ACTIVE");
  if (!gate.state(volume.plugin).open || !takesWork(node) || growth === undefined || claim === undefined) return false;
  // Another machine than the one that has it mounted: it has nothing to grow.
  if (attachment === undefined || isOfOtherMachine(attachment, node.record)) return false;
  const { bytes } = growth;
  await failpoint("controller.grow.after-commit");
  signal.throwIfAborted();
  const order = {
    volume,
    claim,
    nodeEpoch: node.record.nodeEpoch,
    capacity: { required: bytes, limit: limitOf(growth) },
  };
  const attempt = (growth.nodes[name]?.attempts.count ?? 0) + 1;
  const answer = await agents
    .expand(node.record, order, { signal, attempt, vetting })
    .catch((error: unknown): GrowAnswer => ({ kind: "unknown", failure: failureOf(error) }));
  signal.throwIfAborted();
  await failpoint("controller.grow.after-call");
  const decide = (v: VolumeRecord, at: Parameters<typeof growthAnswered>[4]) =>
    v.uid === volume.uid ? growthAnswered(v, name, bytes, answer, at) : noChange(v);
  return (await records.change(volume, decide, { traceId })).changed;
};

/** The last node that owed its part has let the volume go, and another one has done it. */
export const endGrowthStep: StepHandler<"end growth"> = async ({ records }, _step, { volume, traceId }) =>
  (await records.change(volume, growthSettled, { traceId })).changed;
