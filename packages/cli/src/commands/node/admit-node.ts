import { AdmitNodeResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { confirmOption, evidenceOption, outcomeText, reasonOption, verbFields } from "../repair/repair-verb.ts";

export const admitNode: Command = {
  path: ["node", "admit"],
  summary: "state which life of a node's name is the node",
  description:
    "For a node that was started anew, or lost its journal, beside claims that stand. Says what it would mean; with --confirm it is done. If another life still runs, two writers are possible.",
  args: [
    { name: "node", help: "the node's name", completes: "node" },
    { name: "life", help: "the life that is the node, from `node status`" },
  ],
  options: [evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast node admit node-a 4f1c09d2b7aa --evidence "it was rebooted by hand, ticket 4711" --reason "kernel update"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const answer = await context.clients.repair.admitNode({
      node: input.arg("node"),
      life: input.arg("life"),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.AdmitNodeResponse", AdmitNodeResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};
