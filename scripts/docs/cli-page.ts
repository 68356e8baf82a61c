import { commandSources, groups } from "@holdfast/cli/commands/commands";
import type { ArgumentSpec, Command } from "@holdfast/cli/frame/command";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import { exitCodes } from "@holdfast/cli/frame/exit-code";
import { defaultAddress } from "@holdfast/cli/frame/settings";
import { cliEnvironment } from "@holdfast/shared/config/cli-environment";

const commands = await loadCommands(commandSources);

const exitWords: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "done",
  failed: "it ended otherwise than asked for, or the command line has a fault",
  usage: "the command, a setting or a spec file is wrong; nothing was done",
  notFound: "there is no such thing",
  refused: "refused as things are: in use, held by another, exists already, not allowed; nothing was done",
  unavailable:
    "the controller was not reached, or its answer was lost: it may have been done; the same command again is safe",
  timeUp: "the time given with --timeout is over; the work goes on",
  blocked: "it cannot go on by itself; the message says what clears it, and it goes on then",
  interrupted: "Ctrl-C during a wait; the work goes on",
};

const argument = ({ name, optional, many }: ArgumentSpec): string => {
  const dots = many === true ? "…" : "";
  return optional === true ? `[${name}${dots}]` : `<${name}${dots}>`;
};

const row = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;

const section = (command: Command): readonly string[] => {
  const line = ["holdfast", ...command.path, ...(command.args ?? []).map(argument)].join(" ");
  const given = [
    ...(command.args ?? []).map((one) => row([`\`${argument(one)}\``, one.help])),
    ...(command.options ?? []).map((one) =>
      row([`\`${one.flags}\``, `${one.help}${one.required === true ? " (required)" : ""}`]),
    ),
  ];
  return [
    `### ${command.path.join(" ")}`,
    "",
    `\`${line}\`: ${command.summary}.`,
    ...(command.description === undefined ? [] : ["", command.description]),
    ...(given.length === 0 ? [] : ["", "| | |", "|---|---|", ...given]),
    "",
    "```sh",
    ...command.examples.map(({ line: example, says }) => `${example}   # ${says}`),
    "```",
    "",
  ];
};

export const cliPage = (): string => {
  const alone = commands.filter(({ path }) => path.length === 1);
  return [
    "# The command line",
    "",
    "`holdfast` asks a controller over the same API as every scheduler. This page is made from its table of commands",
    "(`npm run docs`); `holdfast help` and `holdfast <command> --help` say the same.",
    "",
    "In this repository: `node packages/cli/bin/holdfast.mjs`, or `npx holdfast`, after `npm ci` and `npm run generate`.",
    "Elsewhere: `holdfast` of the package `holdfast`, which `npm run bundle && npm pack ./dist` makes here. It needs Node 24 or newer",
    "and no other package ([how to install it](operations.md)).",
    "",
    "## For people and for programs",
    "",
    "Answers are tables on standard output; progress and notes are on standard error, as one live line on a terminal.",
    "With `--json` the answer is one JSON document: the API's own message as proto3 JSON with the field names of the",
    "`.proto` files ([reference](reference/)); `events` and `repair scan` print one document a line. A failure with",
    '`--json` is `{"error": {reason, message, details, next, exit_code}}` on standard error; `reason` is a word of',
    "[errors.md](errors.md).",
    "",
    "A list takes `-o wide` (every column), `-o columns=ID,STATE` (columns by their titles), `-o name` (names alone, for other",
    "commands), `-o yaml` and `-o json` (as `--json`). On a terminal a table is cut to its width: a path loses its middle, other",
    "text its end; `-o wide`, `-o columns` and a pipe cut nothing. `-w` reads the list every two seconds and shows it again: on a",
    "terminal in place, elsewhere when a record has changed (with `-o json` one line each time). Ctrl-C ends it, with 0.",
    "",
    "Most commands that show, make or change one object (or those of one request, as `claim create`) take `-o json`, `-o yaml`",
    "and `-o name`; `--help` lists it where it is taken. They refuse the other forms before they ask the controller.",
    "",
    "The words of other programs are taken too: `ls` for `list`, `rm` for `delete`, `inspect` for `status`, `describe` for",
    "`explain` or `status`, `get` for `list` and, with a name, for `status`. A beginning of a command or an option that can mean",
    "one alone is enough (`vol li --name ci`; of an option three letters). What takes something away is written in full,",
    "and so is an option that vouches for something. A word that is none is answered by those that are near (exit 2); so is a",
    "workload that has no claim to release (exit 3).",
    "",
    "A command that starts work waits for it (`--no-wait` does not). Ctrl-C, and the end of `--timeout`, end the wait and",
    "never the work: the message says how to look and how to stop it.",
    "",
    "| exit code | meaning |",
    "|---|---|",
    ...Object.entries(exitCodes).map(([name, code]) => row([String(code), exitWords[name as keyof typeof exitCodes]])),
    "",
    "## Settings",
    "",
    "An option wins over the environment, that over the file `~/.config/holdfast/config.yaml` (`--config`,",
    "`HOLDFAST_CONFIG`), that over the default. The services pass these variables over: one shell may have them for both.",
    "",
    "| option | environment, and name in the file | default |",
    "|---|---|---|",
    row(["`--address`", `\`${cliEnvironment.address}\`, \`address\``, `\`${defaultAddress}\``]),
    row(["`-n, --namespace`", `\`${cliEnvironment.namespace}\`, \`namespace\``, "`default`"]),
    row(["`--timeout`", `\`${cliEnvironment.timeout}\`, \`timeout\``, "`5m`"]),
    row(["`--identity`", `\`${cliEnvironment.identity}\`, \`identity\``, "`operator/<user>`"]),
    row(["`--colour`", `\`${cliEnvironment.colour}\`, \`colour\``, "`auto`; `NO_COLOR` is heeded"]),
    row(["`--json`", "", "off"]),
    "",
    "## Spec files",
    "",
    "YAML or JSON with the fields of the request's message. Sizes may be written `10GiB` or `500MB`, durations `5m`, words of an",
    "enum in any case, with dashes, and without their prefix (`single-node-writer`). Every mistake is told at once, with file,",
    "line, column, field and rule, and nothing is sent; what only the controller can judge is told by line as well.",
    "",
    "`holdfast volume init` prints one with a comment for each field; `volume create` makes the volume, and `volume apply` changes",
    "it after an edit. The shortest:",
    "",
    "```yaml",
    "id: data",
    "plugin: local.holdfast.dev",
    "capacity: { required_bytes: 1GiB }",
    "capabilities:",
    "  - { attachment_mode: file-system, access_mode: single-node-writer, fs_type: ext4 }",
    "```",
    "",
    ...groups.flatMap(({ name, summary }) => [
      `## ${name}`,
      "",
      `To ${summary}.`,
      "",
      ...commands.filter(({ path }) => path.length > 1 && path[0] === name).flatMap(section),
    ]),
    "## Others",
    "",
    ...alone.flatMap(section),
  ]
    .join("\n")
    .trimEnd()
    .concat("\n");
};
