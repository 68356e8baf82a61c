import type { Step } from "../../domain/steps.ts";
import { takeTurn } from "../owed/run-owed.ts";
import { owedVolumes, type StepDeps, type StepRun } from "./step-run.ts";
import { offerStep, releaseStep } from "./steps-agent.ts";
import { abandonStep, attachStep, detachStep, finishStep } from "./steps-attach.ts";
import { liftStep } from "./steps-bar.ts";
import { bindStep } from "./steps-bind.ts";
import { endGrowthStep, expandStep, growStep } from "./steps-expand.ts";
import { modifyStep } from "./steps-modify.ts";
import { expireStep, grantStep } from "./steps-queue.ts";
import { reattachStep } from "./steps-reattach.ts";
import { validateStep } from "./steps-register.ts";
import { createStep, deleteStep, endEphemeralStep, endRestoreStep } from "./steps-volume.ts";

/** Decisions that call nothing: whoever comes to them first makes them. */
const callsNothing: ReadonlySet<Step["do"]> = new Set<Step["do"]>(["bind", "abandon"]);

/** A step of the controller's plugin runs when its call is this controller's to make. */
export const runStep = async (deps: StepDeps, step: Step, run: StepRun): Promise<boolean> => {
  const turn =
    step.lane === "controller" && !callsNothing.has(step.do)
      ? await takeTurn(owedVolumes(deps), run.volume, run.traceId)
      : run.volume;
  return typeof turn === "boolean" ? turn : await act(deps, step, { ...run, volume: turn });
};

/** What each step does; which one is due is decided by `planSteps` alone. */
const act = (deps: StepDeps, step: Step, run: StepRun): Promise<boolean> => {
  switch (step.do) {
    case "create":
      return createStep(deps, step, run);
    case "bind":
      return bindStep(deps, step, run);
    case "validate":
      return validateStep(deps, step, run);
    case "delete":
      return deleteStep(deps, step, run);
    case "attach":
      return attachStep(deps, step, run);
    case "abandon":
      return abandonStep(deps, step, run);
    case "finish":
      return finishStep(deps, step, run);
    case "detach":
      return detachStep(deps, step, run);
    case "reattach":
      return reattachStep(deps, step, run);
    case "offer":
      return offerStep(deps, step, run);
    case "release":
      return releaseStep(deps, step, run);
    case "expand":
      return expandStep(deps, step, run);
    case "modify":
      return modifyStep(deps, step, run);
    case "lift":
      return liftStep(deps, step, run);
    case "grow":
      return growStep(deps, step, run);
    case "end growth":
      return endGrowthStep(deps, step, run);
    case "end ephemeral":
      return endEphemeralStep(deps, step, run);
    case "end restore":
      return endRestoreStep(deps, step, run);
    case "grant":
      return grantStep(deps, step, run);
    case "expire":
      return expireStep(deps, step, run);
  }
};

/** Steps that are one try together: the whole queue of a volume is one grant step. */
export const stepId = (step: Step): string =>
  step.do === "grow"
    ? `grow ${step.node}`
    : step.do === "grant" || !("uid" in step)
      ? step.do
      : `${step.do} ${step.uid}`;
