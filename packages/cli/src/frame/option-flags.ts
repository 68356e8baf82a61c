import type { OptionSpec } from "./command.ts";

export const longFlag = ({ flags }: OptionSpec): string => /--[\w-]+/.exec(flags)?.[0] ?? "";

export const takesValue = ({ flags }: OptionSpec): boolean => /[<[]/.test(flags);

export const answersTo = (option: OptionSpec, word: string): boolean =>
  option.flags.split(/[ ,]+/).some((flag) => flag === word);
