/** One line in the log for each outage: the attempts that follow the first say the same. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";

export interface Outage {
  tell(what: string, error: unknown): void;
  over(): void;
}

export function createOutage(log: Logger): Outage {
  let told = false;
  return {
    tell(what, error) {
      if (!told) log.warn(what, isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error });
      told = true;
    },
    over() {
      told = false;
    },
  };
}
