import { createLogger } from "./log/logger.ts";
import { startFailure } from "./start-failure.ts";

/**
 * The entry of a service. Its code is loaded here and not by an import at the head of main.ts: of code that is missing such an import tells
 * in a stack of Node, before a line of ours runs.
 */
export const startMain = async (service: string, load: () => Promise<unknown>): Promise<void> => {
  try {
    await load();
  } catch (error) {
    const { message, fields, exitCode } = startFailure(error, []);
    createLogger({ level: "error", fields: { service } }).error(message, fields);
    process.exit(exitCode);
  }
};
