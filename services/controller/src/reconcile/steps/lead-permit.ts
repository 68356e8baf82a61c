/** The permit of a claim leaves with the answer of its attach, as domain/claim/permit-ahead.ts says. */
import { judgeVetting, type Vetting } from "@holdfast/model/vetting";
import type { Change } from "../../domain/change.ts";
import type { Claim } from "../../domain/claim/claim.ts";
import { claimAhead, keptBack, leftPerhaps, permitAhead } from "../../domain/claim/permit-ahead.ts";
import { heldBack } from "../../domain/steps.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { takesWork } from "../../records/grant-facts.ts";
import type { Attempt } from "../owed/owed-call.ts";
import type { PushedPermit } from "./led-permits.ts";
import { pushPermit, replacedNode } from "./push-permit.ts";
import type { StepDeps } from "./step-run.ts";

/** How the answer is stored. */
export type Storing = (volume: VolumeRecord, decide: (volume: VolumeRecord) => Change) => Change;

export const asItStands: Storing = (volume, decide) => decide(volume);

export interface AttachEnd {
  readonly attempt: Attempt<Readonly<Record<string, string>>>;
  /** What the store was vetted as when the step was planned. */
  readonly vetting: Vetting;
  readonly secretRef: string | undefined;
}

type LeadDeps = Pick<
  StepDeps,
  "agents" | "failpoint" | "gate" | "leads" | "led" | "nodes" | "records" | "sent" | "signal"
>;

const push = (deps: LeadDeps, volume: VolumeRecord, claim: Claim, end: AttachEnd): PushedPermit | undefined => {
  const { node, goal, uid } = claim;
  const { outcome } = end.attempt;
  const there = deps.nodes.get(node);
  if (outcome.kind !== "done" || goal !== "active" || !deps.leads() || !takesWork(there)) return undefined;
  if (replacedNode(volume, uid, there.record) !== undefined || heldBack(volume, { do: "offer", node }))
    return undefined;
  const done = { publishContext: outcome.value, ...(end.secretRef === undefined ? {} : { secretRef: end.secretRef }) };
  const permit = permitAhead(volume, claim, done, there.record.nodeEpoch);
  return permit && pushPermit(deps, there.record, permit, end.vetting);
};

/** Pushes the permit where it may leave now. */
export const leadPermit = async (deps: LeadDeps, volume: VolumeRecord, end: AttachEnd): Promise<Storing> => {
  const { attempt, vetting } = end;
  const { opId, unstored } = attempt;
  if (unstored) return (found, decide) => decide(leftPerhaps(found, opId)); // PA2
  const now = (await deps.records.recent(volume))?.volume;
  const gate = deps.gate.state(volume.plugin);
  if (now === undefined || !gate.open || judgeVetting(vetting, gate.vetting) !== "same") return asItStands;
  const claim = claimAhead(now, opId, vetting);
  const pushed = claim && push(deps, now, claim, end);
  if (claim === undefined || pushed === undefined) return (found, decide) => decide(keptBack(found, opId, vetting));
  // What it is made of leaves with the end of the turn, and the commit has time until the agent has answered.
  await deps.sent();
  await deps.failpoint("controller.attach.after-lead");
  return (found, decide) => {
    const change = decide(found);
    const offered = change.volume?.claims[claim.uid];
    if (offered?.state === "OFFERED") deps.led.set(offered, pushed);
    return change;
  };
};
