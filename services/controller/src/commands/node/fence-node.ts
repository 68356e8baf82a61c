/**
 * Takes the volumes of a node that cannot answer from it, on evidence. Nothing is called here: the evidence is stored with the node, and the
 * keeper of fences follows it.
 */

import { fenceCommand } from "@holdfast/model/operator-command";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { checkId } from "../../domain/limits.ts";
import { fenceBegun, isDisproved, isFenced } from "../../domain/node/fence.ts";
import { fenceOfVolume, fenceRisks, type VolumeFence } from "../../domain/node/fence-consequence.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import type { NodeView } from "../../ports.ts";
import { isSilent } from "../../records/grant-facts.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { nodeNotFound, storeUnvetted } from "../errors.ts";
import { nodeBarred } from "../repair/repair-errors.ts";
import { auditEntry, doneBefore } from "../repair/repair-verb.ts";
import { checkEvidence, checkRepair } from "../repair/validate-repair.ts";
import { drainViewOf, type NodeCommandDeps } from "./drain-node.ts";
import type { FenceEvidence, FenceNodeInput, FenceView, NodeCommands } from "./node-model.ts";
import { notSuspect } from "./not-suspect.ts";

const verb = "FenceNode";
/** Sentences about single volumes in a consequence. */
const mostSentences = 100;

const asked = ({ reason, dryRun, requestId, evidence }: FenceNodeInput, words: string) => ({
  ...{ reason, dryRun, requestId, confirm: "" },
  evidence: evidence?.kind === "on-detach" ? `detaching fences: ${words}` : words,
});

export const validateFence = (input: FenceNodeInput): void => {
  const { name, evidence, expectedNodeEpoch, dryRun } = input;
  const violations = [
    ...checkId("name", name),
    ...checkRepair(asked(input, "")),
    ...(evidence?.kind === "power-off" && evidence.words !== ""
      ? checkEvidence(evidence.words).map((found) => ({ ...found, field: "power_off_attestation" }))
      : []),
    ...(expectedNodeEpoch === 0 && !dryRun
      ? [{ field: "expected_node_epoch", description: "is required: the node's epoch as GetNode answers it" }]
      : []),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
};

const evidenceRequired = (node: string, plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "EVIDENCE_REQUIRED",
    message: `node ${node} is not fenced: ${why}`,
    metadata: { node, plugin },
  });

const epochChanged = ({ name, nodeEpoch }: NodeRecord, expected: number): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `node ${name} has epoch ${nodeEpoch}, and ${expected} was to be fenced: it has come back or was fenced since; look at holdfast node status ${name}, and decide again`,
    metadata: { node: name, revision: String(nodeEpoch) },
  });

/** Refuses what the evidence does not cover; what it would do is told otherwise. */
const judge = async (deps: NodeCommandDeps, record: NodeRecord, evidence: FenceEvidence): Promise<VolumeFence> => {
  const effects: string[] = [];
  const plugins = new Set<string>();
  let more = 0;
  for await (const { volume } of volumesOnNode(deps.records, record.name, true)) {
    const found = fenceOfVolume(volume, record, evidence.kind, deps.profiles.of(volume.plugin).fence);
    if (found.kind === "barred") throw nodeBarred(volume, found.bar);
    if (found.kind === "uncovered") throw evidenceRequired(record.name, volume.plugin, found.why);
    plugins.add(volume.plugin);
    effects.push(...found.effects.slice(0, mostSentences - effects.length));
    more += found.effects.length;
  }
  const left = more - effects.length;
  return { effects: left > 0 ? [...effects, `and ${left} more of the kind`] : effects, plugins: [...plugins].sort() };
};

/** A fence on evidence that still holds: another one would add nothing. */
const stands = (record: NodeRecord): boolean => isFenced(record) && !isDisproved(record);

const howFar = async (deps: NodeCommandDeps, node: NodeView): Promise<FenceView> => {
  const { name, state, nodeEpoch, fence } = node.record;
  const { remaining, remainingCount } = await drainViewOf(deps, node);
  const [first] = remaining;
  const on = fence === undefined ? "" : ` since ${new Date(fence.since).toISOString()}, on the word of ${fence.who}`;
  return {
    node,
    remaining,
    remainingCount,
    effects: [
      `node ${name} is ${state}${on}, with epoch ${nodeEpoch}`,
      first === undefined
        ? "nothing is claimed or attached there any more"
        : `${remainingCount} claims, attachments and bars are left there, the first: volume ${first.namespace}/${first.volume} (${first.state})`,
    ],
    risks: [],
  };
};

export const createFenceCommands = (deps: NodeCommandDeps): Pick<NodeCommands, "fenceNode" | "fenceView"> => {
  const { nodes, clock, gate, audit } = deps;
  const viewOf = (name: string): NodeView => {
    const view = nodes.get(name);
    if (view === undefined) throw nodes.damage?.(name) ?? nodeNotFound(name);
    return view;
  };
  return {
    fenceView: (name) => howFar(deps, viewOf(name)),

    async fenceNode(input, caller) {
      validateFence(input);
      const { name, evidence, dryRun, requestId, expectedNodeEpoch: expected } = input;
      const done = dryRun ? undefined : await doneBefore(audit, verb, requestId, { node: name });
      const view = viewOf(name);
      if (done !== undefined || stands(view.record)) return await howFar(deps, view);
      // Records that may be older than what the node was given do not show what has to be taken from it.
      if (!gate.state().open) throw storeUnvetted(gate.state().reason);
      const stillMeant = (seen: NodeView, record: NodeRecord): void => {
        if (expected !== 0 && record.nodeEpoch !== expected) throw epochChanged(record, expected);
        if (!isSilent(seen) || record.instance !== view.record.instance) throw notSuspect(seen);
      };
      stillMeant(view, view.record);
      if (evidence === undefined || (evidence.kind === "power-off" && evidence.words === ""))
        throw evidenceRequired(
          name,
          "",
          `attest in your own words that its machine is off (${fenceCommand(name)} --powered-off), or that its plugins fence when they detach`,
        );
      const found = await judge(deps, view.record, evidence);
      const consequence = {
        effects: [
          `node ${name} (machine ${view.record.machineId}) has epoch ${view.record.nodeEpoch + 1}, and no permit for an earlier one counts`,
          ...found.effects,
          `an agent that comes back as node ${name} unmounts all that it holds before the node is READY again`,
        ],
        risks: fenceRisks(view.record, evidence.kind, found.plugins),
      };
      const meets = { ...(await howFar(deps, view)), ...consequence };
      if (dryRun) return meets;
      const now = clock.now();
      const request = asked(input, evidence.kind === "power-off" ? evidence.words : found.plugins.join(", "));
      const fence = { kind: evidence.kind, who: caller.who, evidence: request.evidence, since: now };
      const judgement = { ...consequence, confirmWith: "", subject: { node: name } };
      const entry = { ...auditEntry(verb, request, caller, judgement), confirmed: "" };
      const changedBy = { who: caller.who, why: `${verb}: ${input.reason}`, at: now };
      let begun = false;
      const after = await nodes.change(
        name,
        (record) => {
          begun = !stands(record);
          if (!begun) return record;
          stillMeant({ ...view, ...nodes.get(name), record }, record);
          return { ...fenceBegun(record, fence), changedBy, updatedAt: now };
        },
        { id: audit.newId(now), entry },
      );
      if (after === undefined) throw nodeNotFound(name);
      // Another caller may have been faster.
      return begun ? { ...meets, node: after } : await howFar(deps, after);
    },
  };
};
