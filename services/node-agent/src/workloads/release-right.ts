/**
 * Whether a caller may give a workload back. Its namespace may take tickets, and controllers alone know by which keys.
 *
 * RR1 What was prepared with a ticket is given back when a controller has said that the ticket at hand is good, and not before. RR2 What
 * controllers granted without one needs none, and no controller. RR3 What this host holds for a workload that was not prepared here is asked
 * about; where no controller answers it goes as before there were tickets.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { WorkloadName, WorkloadState } from "../domain/workload-machine.ts";
import type { ControllerClaims } from "./controller-claims.ts";
import type { HeldClaims } from "./held-claims.ts";

export interface ReleaseWish extends WorkloadName {
  /** Empty: none. */
  readonly ticket: string;
}

export interface ReleaseRightOptions {
  readonly stateOf: (name: WorkloadName) => WorkloadState | undefined;
  readonly held: Pick<HeldClaims, "of">;
  readonly claims: Pick<ControllerClaims, "mayRelease">;
}

/** Answers the ticket that controllers may be shown; empty: none. Rejects where nothing may be given back. */
export type ReleaseRight = (name: WorkloadName, ticket: string, signal: AbortSignal) => Promise<string>;

export function createReleaseRight({ stateOf, held, claims }: ReleaseRightOptions): ReleaseRight {
  /** RR2. A record that is only `wanted` may be of a caller that got nothing by it. */
  const isFree = (name: WorkloadName, state: WorkloadState | undefined): boolean =>
    state === undefined
      ? held.of(name).length === 0
      : state.phase === "releasing" || (state.phase !== "wanted" && state.ticketed !== true);

  return async (name, ticket, signal) => {
    const state = stateOf(name);
    if (ticket === "" && isFree(name, state)) return "";
    try {
      await claims.mayRelease({ ...name, ticket }, signal);
      return ticket;
    } catch (error) {
      signal.throwIfAborted();
      if (!isHoldfastError(error) || isTicketRefusal(error)) throw error;
      // Decided before; a ticket that nobody looked at takes the place of no good one.
      if (state?.phase === "releasing") return "";
      if (state?.ticketed === true && error.kind !== "permission") throw error; // RR1
      return ticket; // RR3
    }
  };
}

/** Whether work that another caller began ended by that caller's ticket, which says nothing of one's own. */
export const refusedToAnother = (work: Promise<void>, ofAnother: boolean): Promise<boolean> =>
  work.then(
    () => false,
    (error: unknown) => (ofAnother && isTicketRefusal(error)) || Promise.reject(error),
  );

const isTicketRefusal = (error: unknown): boolean =>
  isHoldfastError(error) && (error.reason === "TICKET_REQUIRED" || error.reason === "TICKET_REFUSED");
