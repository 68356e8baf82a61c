/** From the table of commands to commander: parsing and help are the library's. */
import { Argument, Option, Command as Program } from "commander";
import type { Command, Group, Input } from "./command.ts";
import { exitCodes } from "./exit-code.ts";
import { globalOptions } from "./global-options.ts";
import type { Io } from "./io.ts";
import type { GivenSettings } from "./settings.ts";

export interface ProgramParts {
  readonly io: Io;
  readonly version: string;
  readonly groups: readonly Group[];
  readonly commands: readonly Command[];
  run(command: Command, input: Input, given: GivenSettings): Promise<void>;
}

const inputOf = (command: Command, positional: readonly unknown[], options: Record<string, unknown>): Input => {
  const named = new Map((command.args ?? []).map(({ name }, i) => [name, positional[i]]));
  const option = (name: string): unknown =>
    options[name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())];
  const optionalArg = (name: string): string | undefined => {
    const value = named.get(name);
    return typeof value === "string" ? value : undefined;
  };
  const listOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : []);
  return {
    optionalArg,
    arg: (name) => optionalArg(name) ?? "",
    args: (name) => listOf(named.get(name)),
    text: (name) => {
      const value = option(name);
      return typeof value === "string" ? value : undefined;
    },
    list: (name) => listOf(option(name)),
    flag: (name) => option(name) === true,
  };
};

const examplesText = (command: Command): string =>
  ["", "Examples:", ...command.examples.flatMap(({ line, says }) => [`  # ${says}`, `  ${line}`])].join("\n");

const collect = (value: string, before: unknown): readonly string[] => [
  ...(Array.isArray(before) ? before : []),
  value,
];

/** Every program of the tree writes to our own sinks and throws instead of ending the process. */
const onOurSinks = (program: Program, io: Io): Program =>
  program
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => (io.stdout.terminal ? io.stdout.columns : 100),
      getErrHelpWidth: () => (io.stderr.terminal ? io.stderr.columns : 100),
    })
    .showHelpAfterError("(--help shows what there is)");

const addCommand = (parent: Program, root: Program, command: Command, parts: ProgramParts): void => {
  const name = command.path.at(-1) ?? "";
  // A group may be a command too.
  const program = (parent.commands.find((each) => each.name() === name) ?? parent.command(name)).summary(
    command.summary,
  );
  program.description(
    command.description === undefined ? command.summary : `${command.summary}\n\n${command.description}`,
  );
  for (const { name, help, optional, many } of command.args ?? []) {
    const dots = many === true ? "..." : "";
    program.addArgument(new Argument(optional === true ? `[${name}${dots}]` : `<${name}${dots}>`, help));
  }
  for (const { flags, help, required, many, completes } of command.options ?? []) {
    const option = new Option(flags, help);
    if (required === true) option.makeOptionMandatory();
    if (many === true) option.argParser(collect);
    else if (Array.isArray(completes)) option.choices(completes);
    program.addOption(option);
  }
  program.addHelpText("after", examplesText(command));
  onOurSinks(program, parts.io);
  program.action(async (...given: readonly unknown[]) => {
    const positional = given.slice(0, (command.args ?? []).length);
    await parts.run(command, inputOf(command, positional, program.opts()), root.opts());
  });
};

export const buildProgram = (parts: ProgramParts): Program => {
  const root = new Program("holdfast")
    .description("CSI volumes for any scheduler: asks a Holdfast controller, and shows what it answers.")
    .version(parts.version)
    .enablePositionalOptions(false);
  for (const { flags, help } of globalOptions) root.option(flags, help);
  root.addHelpText(
    "after",
    `\nExit codes: ${Object.entries(exitCodes)
      .map(([name, code]) => `${code} ${name}`)
      .join(", ")}. See docs/cli.md.`,
  );
  onOurSinks(root, parts.io);
  const groups = new Map<string, Program>();
  for (const { name, summary } of parts.groups) {
    const group = root.command(name).summary(summary).description(summary);
    groups.set(name, onOurSinks(group, parts.io));
  }
  for (const command of parts.commands) {
    const [first = "", ...rest] = command.path;
    addCommand(rest.length === 0 ? root : (groups.get(first) ?? root), root, command, parts);
  }
  return root;
};
