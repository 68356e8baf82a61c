/**
 * The place of each intent of this life among all commits of the cell: that of the last commit of this process that stored the intent.
 *
 * P1 No place is made up: after a commit whose answer was lost there is none, and the attempt has to be stored anew before its call leaves.
 */
import type { CallOrder, CallSite } from "../domain/open-call.ts";
import type { CommitOrder } from "../domain/store-types.ts";

export interface CallOrders {
  /** A commit has stored `after` in place of `before`. */
  note(before: CallSite | undefined, after: CallSite | undefined, order: CommitOrder): void;
  of(opId: string): CallOrder | undefined;
  /** A later call of the subject has left, or may have: the attempt has to be stored anew. */
  forget(opId: string): void;
}

/** Of intents that other controllers have dropped nothing is heard here; P1 holds for one that is forgotten too early. */
const remembered = 65_536;

export const createCallOrders = (issuer: string): CallOrders => {
  const orders = new Map<string, CallOrder>();
  return {
    note(before, after, { gen, sequence }) {
      if (before !== undefined) orders.delete(before.opId);
      if (after?.issuer !== issuer) return;
      const { opId } = after;
      orders.delete(opId);
      orders.set(opId, { gen, sequence, opId });
      const oldest = orders.size > remembered ? orders.keys().next().value : undefined;
      if (oldest !== undefined) orders.delete(oldest);
    },
    of: (opId) => orders.get(opId),
    forget: (opId) => void orders.delete(opId),
  };
};
