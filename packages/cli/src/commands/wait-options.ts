import type { OptionSpec } from "../frame/command.ts";

/** Commands that start work wait for it, unless told not to. */
export const noWaitOption: OptionSpec = {
  flags: "--no-wait",
  help: "answer as soon as it is recorded; the work goes on",
};
