/** What could stand where the cursor is, from the table of commands alone; names that only the controller knows are asked for. */
import type { Command, Completes, OptionSpec } from "../frame/command.ts";
import { globalOptions } from "../frame/global-options.ts";
import { answersTo, longFlag, takesValue } from "../frame/option-flags.ts";
import { aliasOf } from "../frame/read-words.ts";

/** Names of one kind; an empty list when nobody answers in time. */
export type AskNames = (kind: Exclude<Completes, readonly string[]>) => Promise<readonly string[]>;

const namesOf = async (completes: Completes | undefined, ask: AskNames): Promise<readonly string[]> => {
  if (completes === undefined || completes === "file") return [];
  return typeof completes === "string" ? ask(completes) : completes;
};

/** `words`: all after `holdfast`; the last one is under the cursor and may be empty. */
export const completeLine = async (
  commands: readonly Command[],
  words: readonly string[],
  ask: AskNames,
): Promise<readonly string[]> => {
  const current = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const matching = (names: readonly string[]): readonly string[] =>
    [...new Set(names)].filter((name) => name.startsWith(current)).sort();

  const positional: string[] = [];
  let command: Command | undefined;
  let waiting: OptionSpec | "global" | undefined;
  for (const [at, word] of before.entries()) {
    if (waiting !== undefined) {
      waiting = undefined;
      continue;
    }
    const own = command?.options?.find((option) => answersTo(option, word));
    if (own !== undefined) waiting = takesValue(own) ? own : undefined;
    else if (globalOptions.some((option) => answersTo(option, word) && takesValue(option))) waiting = "global";
    else if (!word.startsWith("-")) {
      const [group] = positional;
      const names = commands.flatMap(({ path }) => (path[0] === group ? path.slice(1) : []));
      positional.push(positional.length === 1 ? aliasOf(word, words[at + 1], names) : word);
      command ??= commands.find(({ path }) => path.join(" ") === positional.join(" "));
    }
  }
  if (waiting === "global") return [];
  if (waiting !== undefined) return matching(await namesOf(waiting.completes, ask));
  if (current.startsWith("-"))
    return matching([...(command?.options ?? []).map(longFlag), ...globalOptions.map(longFlag), "--help"]);
  if (command === undefined) {
    const here = commands.filter(({ path }) => positional.every((word, i) => path[i] === word));
    return matching(here.flatMap(({ path }) => path.slice(positional.length, positional.length + 1)));
  }
  const given = positional.length - command.path.length;
  const args = command.args ?? [];
  const argument = args[given] ?? (args.at(-1)?.many === true ? args.at(-1) : undefined);
  return matching(await namesOf(argument?.completes, ask));
};
