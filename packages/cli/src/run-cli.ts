/**
 * The only file that knows every part of the command line. What a run may not need is imported where it is needed: a person waits for the start
 * of every command.
 */
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import { CommanderError } from "commander";
import { commandSources, groups } from "./commands/commands.ts";
import { awaitSettled } from "./frame/await-settled.ts";
import { CliFailure } from "./frame/cli-failure.ts";
import type { Clients } from "./frame/clients.ts";
import type { Command, Input } from "./frame/command.ts";
import { type ExitCode, exitCodes } from "./frame/exit-code.ts";
import { asCliFailure, failureJson, failureText } from "./frame/failure-words.ts";
import type { Io } from "./frame/io.ts";
import type { MessageJson } from "./frame/message-json.ts";
import { createOutput, type Documents } from "./frame/output.ts";
import { buildProgram } from "./frame/program.ts";
import { readWords } from "./frame/read-words.ts";
import { defaultAddress, type GivenSettings, readSettings } from "./frame/settings.ts";

export interface CliRun {
  readonly args: readonly string[];
  readonly io: Io;
}

const twoForms = (form: string): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.usage,
    reason: "USAGE",
    message: `--json and --output ${form} exclude each other: give one of the two`,
  });

const documents = async (messages: () => Promise<MessageJson>, yaml: boolean): Promise<Documents> => {
  if (!yaml)
    return {
      messages: await messages(),
      write: (value, one) => `${JSON.stringify(value, undefined, one ? 2 : undefined)}\n`,
    };
  const { stringify } = await import("yaml");
  return { messages: await messages(), write: (value, one) => `${one ? "" : "---\n"}${stringify(value)}` };
};

export const runCli = async ({ args, io }: CliRun): Promise<ExitCode> => {
  let clients: Clients | undefined;
  let address = defaultAddress;
  let json = args.includes("--json");

  const run = async (command: Command, input: Input, given: GivenSettings): Promise<void> => {
    const form = input.text("output");
    json ||= form === "json";
    const read = await readSettings(io, given);
    if (read.json && form !== undefined && form !== "json") throw twoForms(form);
    const settings = { ...read, json: json || form === "yaml" };
    address = settings.address;
    const { connect } = await import("./frame/clients.ts");
    const connected = await connect(settings);
    clients = connected;
    let loading: Promise<MessageJson> | undefined;
    const messages = (): Promise<MessageJson> => {
      loading ??= import("./frame/message-json.ts").then(({ loadMessageJson }) => loadMessageJson());
      return loading;
    };
    await command.run(
      {
        io,
        settings,
        clients: connected,
        messages,
        out: createOutput(io, settings, settings.json ? await documents(messages, form === "yaml") : undefined),
        wait: (awaited) => awaitSettled(io, settings, awaited),
      },
      input,
    );
  };

  try {
    const read = await readWords({ groups, sources: commandSources }, args);
    const program = buildProgram({ io, version: holdfastVersion, groups, commands: read.commands, run });
    await program.parseAsync([...read.args], { from: "user" });
    return exitCodes.ok;
  } catch (error) {
    // The library has said what is wrong with the line; help and version are no failures.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    const failure = asCliFailure(error, address);
    io.stderr.write(json ? failureJson(failure) : failureText(failure));
    return failure.exitCode;
  } finally {
    clients?.close();
  }
};
