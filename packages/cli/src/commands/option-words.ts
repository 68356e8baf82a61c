import { parseSize } from "@holdfast/model/size";
import { type WireDuration, wireDuration } from "@holdfast/model/wire-duration";
import { parseDuration } from "@holdfast/shared/config/setting";
import { CliFailure } from "../frame/cli-failure.ts";
import type { OptionSpec } from "../frame/command.ts";
import { exitCodes } from "../frame/exit-code.ts";
import type { EnumWords } from "../words/enum-words.ts";

export const usage = (message: string): CliFailure =>
  new CliFailure({ exitCode: exitCodes.usage, reason: "USAGE", message });

/** Only a controller that knows operators by certificates demands it. */
export const recordedReasonOption: OptionSpec = { flags: "--reason <text>", help: "why, for the record" };

export const optionWords = <Value extends number>(
  option: string,
  words: EnumWords<Value>,
  given: readonly string[],
): Value[] =>
  given.map((text) => {
    const value = words.parse(text);
    if (value === undefined) throw usage(`${option} ${text}: there are ${words.words.join(", ")}`);
    return value;
  });

export const labelsOf = (option: string, given: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf("=");
      if (at < 1) throw usage(`${option} ${text}: has to be key=value`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );

export const sizeOf = (option: string, text: string | undefined): bigint => {
  if (text === undefined) return 0n;
  const bytes = parseSize(text);
  if (bytes === undefined) throw usage(`${option} ${text}: has to be a size such as 10GiB, or a whole number of bytes`);
  return bytes;
};

export const millisOf = (option: string, text: string): number => {
  const ms = parseDuration(text);
  if (ms === undefined) throw usage(`${option} ${text}: has to be a duration such as 30s, 5m or 1h`);
  return ms;
};

export const durationOf = (option: string, text: string): WireDuration => wireDuration(millisOf(option, text));
