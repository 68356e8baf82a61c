import { createLogger, type Logger } from "./logger.ts";

/** For parts that log, run by somebody who tells what matters in another way. */
export const createSilentLogger = (): Logger =>
  createLogger({ level: "error", destination: { write: () => undefined } });
