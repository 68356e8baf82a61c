/**
 * One line in the log for each reason of an outage: most attempts that follow the first say the same, and one that says another thing may name
 * the cure.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";

export interface Outage {
  tell(what: string, error: unknown): void;
  over(): void;
}

const reasonOf = (error: unknown): string => (isHoldfastError(error) ? error.reason : "");

export function createOutage(log: Logger): Outage {
  const told = new Set<string>();
  return {
    tell(what, error) {
      const reason = reasonOf(error);
      if (told.has(reason)) return;
      told.add(reason);
      log.warn(what, isHoldfastError(error) ? { reason, detail: error.message } : { error });
    },
    over: () => told.clear(),
  };
}
