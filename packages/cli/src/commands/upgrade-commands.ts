import { FinishUpgradeResponse, GetUpgradeResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Command } from "../frame/command.ts";
import { shown } from "../frame/output.ts";
import { tableText } from "../frame/tables.ts";
import { ago } from "../words/moment.ts";
import { confirmOption, outcomeText, reasonOption, verbFields } from "./repair/repair-verb.ts";

const range = (oldest: number, newest: number): string => (oldest === newest ? `${oldest}` : `${oldest} to ${newest}`);

/** What `upgrade finish` would answer now. */
const ending = ({ format, newestFormat, controllers }: GetUpgradeResponse): string => {
  if (format >= newestFormat) return "nothing is left to be finished\n";
  const behind = controllers.filter((one) => one.newestFormat < newestFormat || one.oldestFormat > newestFormat);
  return behind.length === 0
    ? `\`holdfast upgrade finish\` would raise it to ${newestFormat}\n`
    : `\`holdfast upgrade finish\` waits for the newer release at ${behind.map(({ id }) => id).join(", ")}\n`;
};

const statusUpgrade: Command = {
  path: ["upgrade", "status"],
  summary: "show how far an upgrade of the controllers is",
  examples: [{ line: "holdfast upgrade status", says: "which format the store has, and who reads the newest" }],
  async run({ clients, out, io }) {
    const answer = await clients.repair.getUpgrade({});
    out.answer(shown("holdfast.v1.GetUpgradeResponse", GetUpgradeResponse, answer), () =>
      [
        `the store has format ${answer.format}; the newest that this controller reads is ${answer.newestFormat}\n`,
        tableText(
          [
            { title: "CONTROLLER", of: ({ id }) => id },
            { title: "VERSION", of: ({ version }) => version },
            { title: "READS", of: ({ oldestFormat, newestFormat }) => range(oldestFormat, newestFormat) },
            { title: "SEEN", of: ({ seenAt }) => ago(seenAt, io.now()) },
          ],
          answer.controllers,
        ),
        ending(answer),
      ].join(""),
    );
  },
};

const finishUpgrade: Command = {
  path: ["upgrade", "finish"],
  summary: "let records be written as the newest release writes them",
  description:
    "Refused while a controller on record cannot read them. Until then the release before can be started again; from then on the way back is a backup (docs/operations.md).",
  options: [reasonOption, confirmOption],
  examples: [{ line: 'holdfast upgrade finish --reason "all controllers are new"', says: "what would it mean?" }],
  async run(context, input) {
    const { evidence: _, ...fields } = verbFields(input);
    const answer = await context.clients.repair.finishUpgrade(fields);
    context.out.answer(shown("holdfast.v1.FinishUpgradeResponse", FinishUpgradeResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

export const upgradeCommands: readonly Command[] = [statusUpgrade, finishUpgrade];
