/**
 * From the words of a person to the words of the table: aliases, and beginnings that mean one word. Invariant: a command that takes something
 * away, and an option that vouches for something, is written in full; a beginning of it is answered by its name and not by the act.
 */
import { nearNames } from "../words/near-names.ts";
import { CliFailure } from "./cli-failure.ts";
import type { Command, Group, OptionSpec } from "./command.ts";
import { type CommandSource, loadCommands } from "./command-source.ts";
import { exitCodes } from "./exit-code.ts";
import { globalOptions } from "./global-options.ts";
import { answersTo, longFlag, takesValue } from "./option-flags.ts";

export interface CommandTable {
  readonly groups: readonly Group[];
  readonly sources: readonly CommandSource[];
}

export interface WordsRead {
  readonly args: readonly string[];
  /** The command that is meant; of a group, or all, where help is asked for. */
  readonly commands: readonly Command[];
}

/** Commands whose beginning is enough: they look, or make something new. */
const shortens =
  /^(?:list|status|group-status|explain|stats|show|create|check|capacity|scan|stuck|verify|follow|token|events|doctor|top|completion)/;

/** Options that vouch for something, or take something away. */
const vouching: ReadonlySet<string> = new Set([
  "--accept",
  "--confirm",
  "--detach-fences",
  "--evidence",
  "--forget",
  "--none-live",
  "--powered-off",
  "--stopped",
  "--yes",
]);

/** What other programs call it; the first word that the group has. */
const aliases: Readonly<Record<string, readonly string[]>> = {
  ls: ["list"],
  rm: ["delete"],
  inspect: ["status", "show"],
  describe: ["explain", "status", "show"],
};

const wrong = (message: string, next: readonly string[]): CliFailure =>
  new CliFailure({ exitCode: exitCodes.usage, reason: "USAGE", message, next });

/** `holdfast volume`, where the word stands. */
const meantWord = (word: string, before: string, names: readonly string[], groups: readonly string[]): string => {
  if (names.includes(word)) return word;
  const begins = names.filter((name) => word !== "" && name.startsWith(word));
  const [only = ""] = begins;
  if (begins.length === 1 && (shortens.test(only) || groups.includes(only))) return only;
  const near = begins.length > 0 ? begins : nearNames(word, names);
  const said = `"${before} ${word}"`;
  throw wrong(
    begins.length > 1
      ? `${said} may mean several commands`
      : begins.length === 1
        ? `${said} has to be written in full`
        : `there is no command ${said}`,
    [...near.map((name) => `did you mean: ${before} ${name}`), `${before} --help    shows what there is`],
  );
};

/** The word of the table for an alias; any other word is itself. `follows`: the word behind it. */
export const aliasOf = (word: string, follows: string | undefined, names: readonly string[]): string => {
  const one = follows !== undefined && !follows.startsWith("-");
  const candidates = word === "get" ? (one ? ["status", "show"] : ["list"]) : (aliases[word] ?? []);
  return names.includes(word) ? word : (candidates.find((name) => names.includes(name)) ?? word);
};

/** The flag in full, where what was given begins exactly one; what begins none is left to the parser. */
const meantFlag = (flag: string, options: readonly OptionSpec[]): string => {
  const names = [...options.map(longFlag), "--help"];
  if (!flag.startsWith("--") || flag.length < 5 || names.includes(flag)) return flag;
  const begins = names.filter((name) => name.startsWith(flag));
  const [only] = begins;
  if (only === undefined || (begins.length === 1 && !vouching.has(only))) return only ?? flag;
  throw wrong(
    begins.length === 1 ? `the option ${flag} has to be written in full` : `the option ${flag} may mean several`,
    begins.map((name) => `did you mean: ${name}`),
  );
};

interface Word {
  readonly at: number;
  readonly isFlag: boolean;
}

/** What stands before `--`, without the values of options. */
const partsOf = (args: readonly string[], options: readonly OptionSpec[]): readonly Word[] => {
  const parts: Word[] = [];
  for (let at = 0; at < args.length && args[at] !== "--"; at += 1) {
    const word = args[at] ?? "";
    const isFlag = word.startsWith("-") && word !== "-";
    parts.push({ at, isFlag });
    if (!isFlag || word.includes("=")) continue;
    const name = meantFlag(word, options);
    const option = options.find((each) => answersTo(each, name));
    if (option === undefined || !takesValue(option)) continue;
    const mayStandAlone = option.flags.includes("[");
    if (!mayStandAlone || args[at + 1]?.startsWith("-") === false) at += 1;
  }
  return parts;
};

export const readWords = async ({ groups, sources }: CommandTable, given: readonly string[]): Promise<WordsRead> => {
  const args = [...given];
  const words = partsOf(args, globalOptions).filter(({ isFlag }) => !isFlag);
  const [first, second] = words.map(({ at }) => at);
  const asksVersion = args.some((word) => word === "--version" || word === "-V");
  if (first === undefined) return { args, commands: asksVersion ? [] : await loadCommands(sources) };
  if (args[first] === "help") return { args, commands: await loadCommands(sources) };

  const groupNames = groups.map(({ name }) => name);
  const alone = sources.filter(({ group }) => group === undefined).flatMap((source) => source.words);
  const groupsAlone = groupNames.filter((name) => !alone.includes(name));
  const subject = meantWord(args[first] ?? "", "holdfast", [...groupsAlone, ...alone], groupsAlone);
  args[first] = subject;
  let group: string | undefined;
  let verb = subject;
  const ofGroup = sources.filter((source) => source.group === subject);
  // A word that is a command too takes the words of its group before any other.
  const isCommand =
    alone.includes(subject) && !ofGroup.some((source) => source.words.includes(args[second ?? -1] ?? ""));
  if (groupNames.includes(subject) && !isCommand) {
    group = subject;
    if (second === undefined || args[second] === "help") return { args, commands: await loadCommands(ofGroup) };
    const names = ofGroup.flatMap((source) => source.words);
    const word = aliasOf(args[second] ?? "", args[second + 1], names);
    verb = meantWord(word, `holdfast ${subject}`, names, []);
    args[second] = verb;
  }
  const source = sources.find((each) => each.group === group && each.words.includes(verb));
  const commands =
    source === undefined ? [] : await loadCommands([{ ...source, words: [verb] }, ...(isCommand ? ofGroup : [])]);
  const options = [...(commands[0]?.options ?? []), ...globalOptions];
  for (const { at, isFlag } of partsOf(args, options)) {
    const [flag = "", ...value] = (args[at] ?? "").split("=");
    if (isFlag) args[at] = [meantFlag(flag, options), ...value].join("=");
  }
  return { args, commands };
};
