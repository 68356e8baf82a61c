/**
 * What backends say they have left, for whoever chooses a place and cannot wait for it. It only ever speaks against a place: what is not
 * told, or not in time, is no obstacle, and the create itself finds out.
 */
import { linkSignals } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { BackendCapacity, CapacityQuery } from "../../domain/plugin/backend-capacity.ts";
import type { CommandDeps } from "../command-deps.ts";
import { getCapacityQuery } from "../plugin/get-capacity.ts";

export type KnownCapacity = (query: CapacityQuery) => Promise<BackendCapacity | undefined>;

/** A plugin that hangs makes every answer about places this late, and no later. */
const patienceMs = 1_000;

export const createKnownCapacity = (
  deps: Pick<CommandDeps, "plugins" | "clock">,
  signal: AbortSignal,
): KnownCapacity => {
  const ask = getCapacityQuery(deps);
  return async (query) => {
    const told = linkSignals(signal);
    const late = deps.clock.sleep(patienceMs, told.signal).then(
      () => undefined,
      () => undefined,
    );
    const answer = ask(query).catch((error: unknown) => {
      if (isHoldfastError(error)) return undefined;
      throw error;
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      told.abort(new DOMException("told", "AbortError"));
      told.dispose();
    }
  };
};
