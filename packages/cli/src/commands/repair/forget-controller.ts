import { ForgetControllerResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { confirmOption, evidenceOption, outcomeText, reasonOption, verbFields } from "./repair-verb.ts";

export const forgetController: Command = {
  path: ["repair", "forget-controller"],
  summary: "state that a controller which bars the plugins beside it is gone for good",
  description:
    "For a controller that did not promise the generation of the store and never will, and for calls that a life of one left open at a plugin. `holdfast repair vet` names both. Says what it would mean; with --confirm it is done.",
  args: [{ name: "controller", help: "the controller and its life, as `repair vet` tells it" }],
  options: [evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast repair forget-controller ctl-b/3-1c9e0f2a.77d0b1c4 --evidence "its host is scrapped, ticket 4711" --reason "failover"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const answer = await context.clients.repair.forgetController({
      controller: input.arg("controller"),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.ForgetControllerResponse", ForgetControllerResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};
