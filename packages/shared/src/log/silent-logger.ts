import type { Logger } from "./logger.ts";

const nothing = (): void => undefined;

const silent: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  writes: () => false,
  child: () => silent,
};

/** For parts that log, run by somebody who tells what matters in another way; the library of logs is not loaded for it. */
export const createSilentLogger = (): Logger => silent;
