import type { Logger } from "@holdfast/shared/log/logger";

export interface QuietlyDeps {
  readonly log: Pick<Logger, "debug">;
  readonly signal: AbortSignal;
}

/** One of many questions in a round: the failure of one is noted, and the others are asked all the same. */
export const createQuietly =
  (failure: string, { log, signal }: QuietlyDeps) =>
  async (what: string, subject: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      signal.throwIfAborted();
      log.debug(`${what} ${failure}`, { subject, error });
    }
  };
