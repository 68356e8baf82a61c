import type { RepairOutcome } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Input, OptionSpec } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { consequenceText } from "../resource-words.ts";

/** What every verb that overrides a proof asks for. */
export const reasonOption: OptionSpec = { flags: "--reason <text>", help: "why; recorded", required: true };
export const evidenceOption: OptionSpec = {
  flags: "--evidence <text>",
  help: "what makes you sure, such as a ticket; recorded",
  required: true,
};
export const confirmOption: OptionSpec = {
  flags: "--confirm <words>",
  help: "the words of the dry run; without them nothing is done",
};

/** The fields that all verbs share. Without the words it is a dry run: what is believed has to be read first. */
export const verbFields = (input: Input) => ({
  reason: input.text("reason") ?? "",
  evidence: input.text("evidence") ?? "",
  confirm: input.text("confirm") ?? "",
  dryRun: input.text("confirm") === undefined,
});

export const outcomeText = ({ out }: Context, outcome: RepairOutcome | undefined): string => {
  if (outcome === undefined) return "";
  if (!outcome.dryRun) return `done; audit record ${outcome.auditId}\n${consequenceText(outcome.consequence)}`;
  return [
    out.warn("nothing was done. It would mean:\n"),
    consequenceText(outcome.consequence),
    outcome.confirmWith === ""
      ? ""
      : `to do it, give the same command with\n  --confirm ${JSON.stringify(outcome.confirmWith)}\n`,
  ].join("");
};
