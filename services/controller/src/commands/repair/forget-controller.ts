import type { AuditSubject } from "../../domain/repair/audit.ts";
import type { ControllerGates, GateWord } from "../../records/controller-gates.ts";
import type { CommandDeps } from "../command-deps.ts";
import { refuse } from "../volume/validate-volume.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { ForgetControllerInput, RepairOutcome, Verb } from "./repair-model.ts";
import {
  auditEntry,
  doneBefore,
  type Judgement,
  type RepairVerbDeps,
  requireConfirmed,
  wouldBe,
} from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

const verb = "ForgetController";

/** The words of all controllers; undefined = no other controller can use the store. */
export interface ControllerWords extends Pick<ControllerGates, "read" | "remove"> {
  /** That life is over, or has said nothing for a while. */
  isAway(issuer: string): boolean;
}

export interface ForgetControllerDeps extends Pick<RepairVerbDeps, "audit">, Pick<CommandDeps, "clock"> {
  readonly words: ControllerWords | undefined;
}

const judge = (words: readonly GateWord[], issuer: string, away: boolean): Judgement => {
  const controller = `controller ${issuer}`;
  const word = words.find((one) => one.issuer === issuer);
  if (word === undefined)
    throw repairNotApplicable(
      controller,
      "on no record",
      "nothing waits for it; holdfast repair vet names those that are waited for",
      {
        controller: issuer,
      },
    );
  if (!away)
    throw repairNotApplicable(
      controller,
      "there",
      "this controller still runs: stop it first; or restart the plugins beside it, and it promises by itself",
      {
        controller: issuer,
      },
    );
  const { plugins } = word;
  return {
    effects: [
      `nobody waits for ${controller} any more`,
      ...(plugins.length === 0 ? [] : [`plugins ${plugins.join(", ")} are called, and granted, as all others are`]),
    ],
    risks: [
      "a call that it decided before may arrive at its plugin after the next grant: a volume is detached under a running workload, or attached twice",
    ],
    confirmWith: `${controller} is over, and no call of it is open at ${plugins.length === 0 ? "a plugin" : plugins.join(", ")}`,
    subject: { controller: issuer },
  };
};

/** A person's word in the place of the promise of a life of a controller that is gone for good. */
export const forgetControllerCommand =
  ({ words, audit, clock }: ForgetControllerDeps): Verb<ForgetControllerInput> =>
  async (input, caller): Promise<RepairOutcome> => {
    const { controller } = input;
    const missing = { field: "controller", description: "is required: holdfast repair vet names it" };
    refuse([...(controller === "" ? [missing] : []), ...checkEvidence(input.evidence), ...checkRepair(input)]);
    const subject: AuditSubject = { controller };
    const before = input.dryRun ? undefined : await doneBefore(audit, verb, input.requestId, subject);
    if (before !== undefined) return before;
    const judgement = judge((await words?.read())?.words ?? [], controller, words?.isAway(controller) === true);
    if (input.dryRun) return wouldBe(judgement);
    requireConfirmed(judgement, input);
    const id = audit.newId(clock.now());
    const entry = auditEntry(verb, input, caller, judgement);
    const left = (await words?.remove(({ issuer }) => issuer === controller, { id, entry }))?.words ?? [];
    // It spoke again, or somebody else was faster.
    if ((await audit.get(id)) === undefined) judge(left, controller, true);
    return { dryRun: false, effects: judgement.effects, risks: judgement.risks, auditId: id, confirmWith: "" };
  };
