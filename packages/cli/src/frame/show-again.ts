import type { OptionSpec } from "./command.ts";
import type { Io } from "./io.ts";

export const watchOption: OptionSpec = {
  flags: "-w, --watch",
  help: "show it again when it has changed, until Ctrl-C",
};

export const clearScreen = "\u001b[H\u001b[2J";

const pauseMs = 2_000;

const pause = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, pauseMs);
    signal.addEventListener("abort", done);
  });

/** Once, or with `again` from time to time until Ctrl-C. */
export const showAgain = async (
  { signal }: Pick<Io, "signal">,
  again: boolean,
  show: () => Promise<void>,
): Promise<void> => {
  await show();
  while (again && !signal.aborted) {
    await pause(signal);
    if (!signal.aborted) await show();
  }
};
