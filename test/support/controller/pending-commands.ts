import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { World } from "./world.ts";

/** Commands that run beside each other: a refusal is one of their answers, and any other error fails the test. */
export const createPendingCommands = (at: World) => {
  const pending: Promise<unknown>[] = [];
  return {
    quiet(promise: Promise<unknown>): void {
      pending.push(
        promise.catch((error: unknown) => {
          if (!isHoldfastError(error)) throw error;
        }),
      );
    },
    async settle(): Promise<void> {
      await at.pass(2_000);
      await Promise.all(pending.splice(0));
    },
  };
};
