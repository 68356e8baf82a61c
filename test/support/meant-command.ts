import { commandSources, groups } from "@holdfast/cli/commands/commands";
import type { Command } from "@holdfast/cli/frame/command";
import { buildProgram } from "@holdfast/cli/frame/program";
import { readWords } from "@holdfast/cli/frame/read-words";

/** Which command these words behind `holdfast` mean, by the parser of the command line itself; nothing is run. What it refuses, it throws. */
export const meantCommand = async (words: readonly string[]): Promise<Command | undefined> => {
  let found: Command | undefined;
  const silent = { write: () => undefined, terminal: false, columns: 80 };
  const io = {
    stdout: silent,
    stderr: silent,
    stdin: async () => "",
    confirm: async () => undefined,
    readFile: async () => new Uint8Array(),
    env: {},
    home: "/",
    user: "ada",
    now: () => 0,
    verifyAudit: async () => ({ trails: [] }),
    runController: async () => undefined,
    checkService: async () => undefined,
    signal: new AbortController().signal,
  };
  const run = async (command: Command): Promise<void> => {
    found = command;
  };
  const { args, commands } = await readWords({ groups, sources: commandSources }, words);
  await buildProgram({ io, version: "0", groups, commands, run }).parseAsync([...args], { from: "user" });
  return found;
};
