import { CliFailure } from "../frame/cli-failure.ts";
import type { Command, Input } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { type ExitCode, exitCodes } from "../frame/exit-code.ts";

const needs =
  "Runs the controller's own program, on a machine that has it, with the controller's settings (HOLDFAST_STORE, HOLDFAST_STORE_MIGRATE, HOLDFAST_CELL, HOLDFAST_STATE_DIR) in the environment: whoever may do this has the store's password already.";

const codeOf = (code: number): ExitCode =>
  code === 78 ? exitCodes.usage : code === 130 ? exitCodes.interrupted : exitCodes.failed;

/** What it prints goes straight to the terminal; it has said what is wrong. */
const runController = async ({ io }: Context, command: string, input: Input): Promise<void> => {
  const args = ["nodes", "file"].flatMap((name) => input.optionalArg(name) ?? []);
  const code = await io.runController([command, ...args]);
  if (code === undefined)
    throw new CliFailure({
      exitCode: exitCodes.failed,
      reason: "NO_CONTROLLER_HERE",
      message: "the controller's program is not on this machine",
      next: [`where it is: node services/controller/src/main.ts ${[command, ...args].join(" ")}`],
    });
  if (code !== 0)
    throw new CliFailure({
      exitCode: codeOf(code),
      reason: "FAILED",
      message: `${command} ended with ${code}; it says why above`,
    });
};

const exportStore: Command = {
  path: ["export"],
  summary: "write a backup of a cell: every record, secrets as ciphertext",
  description: `Controllers on Redis may go on meanwhile; an SQLite store has to be at rest. The file appears whole or not at all. ${needs}`,
  args: [{ name: "file", help: "where to write it", completes: "file" }],
  examples: [{ line: "holdfast export /backup/holdfast.export", says: "all of the cell, with a checksum" }],
  run: (context, input) => runController(context, "export", input),
};

const importStore: Command = {
  path: ["import"],
  summary: "put a backup into an empty store",
  description: `Also the way from SQLite to Redis. An import that was cut goes on when it is repeated. Nothing is granted afterwards until every node has told what it holds (docs/operations.md). ${needs}`,
  args: [{ name: "file", help: "what export wrote", completes: "file" }],
  examples: [{ line: "holdfast import /backup/holdfast.export", says: "into the store that HOLDFAST_STORE names" }],
  run: (context, input) => runController(context, "import", input),
};

const migrateStore: Command = {
  path: ["migrate"],
  summary: "load the function library into a Redis, and make a new store ready",
  description: `Controllers do it at their start where they may. Repeating it changes nothing. ${needs}`,
  examples: [{ line: "holdfast migrate", says: "as the user of HOLDFAST_STORE_MIGRATE" }],
  run: (context, input) => runController(context, "migrate", input),
};

const rebuildStore: Command = {
  path: ["rebuild"],
  summary: "make a backup out of what the agents hold, when the store is lost without one",
  description: `Listens where the controller listens for agents (HOLDFAST_AGENT_LISTEN), with every controller stopped, and reads what each agent holds and what plugins list. Nothing is changed anywhere: without a file it only says what would be known again, and what is not proven; with one it writes a backup for import. docs/total-loss.md goes through all of it. ${needs}`,
  args: [
    { name: "nodes", help: "every node of the installation, separated by commas" },
    { name: "file", help: "where to write it; without it nothing is written", optional: true, completes: "file" },
  ],
  examples: [
    { line: "holdfast rebuild node-a,node-b,node-c", says: "what would be known again" },
    { line: "holdfast rebuild node-a,node-b,node-c /backup/rebuilt.export", says: "the same, kept for import" },
  ],
  run: (context, input) => runController(context, "rebuild", input),
};

export const backupCommands: readonly Command[] = [exportStore, importStore, migrateStore, rebuildStore];
