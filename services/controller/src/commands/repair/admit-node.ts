import { checkId } from "../../domain/limits.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import type { AuditSubject } from "../../domain/repair/audit.ts";
import type { NodeDecisions, NodeView } from "../../ports.ts";
import type { CommandDeps } from "../command-deps.ts";
import { nodeNotFound } from "../errors.ts";
import { refuse } from "../volume/validate-volume.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { AdmitNodeInput, RepairOutcome, Verb } from "./repair-model.ts";
import {
  auditEntry,
  doneBefore,
  type Judgement,
  type RepairVerbDeps,
  requireConfirmed,
  wouldBe,
} from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

const verb = "AdmitNode";

const otherWriter = (name: string): string =>
  `if another life of node ${name} still runs workloads, they and those of the admitted life write at the same time, and file systems are lost`;

const admitsPending = ({ record, live, linked }: NodeView, life: string): Judgement => {
  const { name, bootId, machineId, pending } = record;
  if (live !== "suspect" || linked === true)
    throw repairNotApplicable(
      `life ${life} of node ${name}`,
      "waiting beside the recorded life",
      linked === true || (linked === undefined && live === "alive")
        ? `the agent of boot ${bootId} still speaks as node ${name}: stop that agent first, then repeat`
        : `the agent of boot ${bootId} is not known to be silent: another controller may have its link; stop that agent, and repeat once node ${name} is SUSPECT (HOLDFAST_LINK_GRACE)`,
      { node: name, life },
    );
  return {
    effects: [
      `life ${life} is node ${name} once its agent registers again, with a new incarnation`,
      pending?.machineId === machineId
        ? "claims that stand there are published by that agent again, and its releases are believed"
        : `claims that stand there were given to machine ${machineId}: each is blocked with NODE_REPLACED until it is abandoned, or that machine is node ${name} again`,
      `an agent of boot ${bootId} that speaks before that takes the admission back`,
    ],
    risks: [otherWriter(name)],
    confirmWith: `every other life of node ${name} is over, and life ${life} is the node`,
    subject: { node: name, life },
  };
};

const keepsRecorded = ({ record: { name, pending } }: NodeView, life: string): Judgement => ({
  effects: [
    `life ${life} stays node ${name}, and speaks for every claim that stands there`,
    ...(pending === undefined
      ? []
      : [`life ${pending.life} is no longer shown until its agent asks for the name again`]),
  ],
  risks: [otherWriter(name)],
  confirmWith: `life ${life} is node ${name}, and every earlier life is over`,
  subject: { node: name, life },
});

const judge = (view: NodeView, life: string): Judgement => {
  const { record } = view;
  if (life === record.pending?.life) return admitsPending(view, life);
  if (life === record.life) return keepsRecorded(view, life);
  throw repairNotApplicable(
    `life ${life} of node ${record.name}`,
    "not known",
    `the node is life ${record.life ?? "unknown"}, and ${record.pending === undefined ? "no other life waits" : `life ${record.pending.life} waits`}; look at holdfast node status ${record.name}`,
    { node: record.name, life },
  );
};

/** The record with the word in it: one compare-and-set, which any controller that hears the recorded life can take back (N8). */
const withWord = (record: NodeRecord, life: string): NodeRecord => {
  const { admitted: _before, pending, speaksFrom, ...kept } = record;
  return life === pending?.life
    ? { ...kept, pending, admitted: life, ...(speaksFrom === undefined ? {} : { speaksFrom }) }
    : kept;
};

/** A person's word about which life of a node's name is the node. */
export const admitNodeCommand =
  (
    deps: Pick<RepairVerbDeps, "audit"> &
      Pick<CommandDeps, "clock"> & {
        readonly nodes: Pick<CommandDeps["nodes"], "get"> & Pick<NodeDecisions, "change">;
      },
  ): Verb<AdmitNodeInput> =>
  async (input, caller): Promise<RepairOutcome> => {
    const { node: name, life } = input;
    refuse([
      ...checkId("node", name),
      ...(life === "" ? [{ field: "life", description: "is required: holdfast node status names it" }] : []),
      ...checkEvidence(input.evidence),
      ...checkRepair(input),
    ]);
    const { audit, nodes, clock } = deps;
    const subject: AuditSubject = { node: name, life };
    const before = input.dryRun ? undefined : await doneBefore(audit, verb, input.requestId, subject);
    if (before !== undefined) return before;
    const view = nodes.get(name);
    if (view === undefined) throw nodeNotFound(name);
    const judgement = judge(view, life);
    if (input.dryRun) return wouldBe(judgement);
    requireConfirmed(judgement, input);
    const now = clock.now();
    const id = audit.newId(now);
    const entry = auditEntry(verb, input, caller, judgement);
    const changedBy = { who: caller.who, why: `${verb}: ${input.reason}`, at: now };
    await nodes.change(
      name,
      (record) => {
        judge({ ...view, ...nodes.get(name), record }, life);
        return { ...withWord(record, life), changedBy, updatedAt: now };
      },
      { id, entry },
    );
    return { dryRun: false, effects: judgement.effects, risks: judgement.risks, auditId: id, confirmWith: "" };
  };
