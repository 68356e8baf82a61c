/**
 * The place of each record's intent among all commits of the cell: that of the last commit of this process that stored the intent.
 *
 * P1 No place is made up: after a commit whose answer was lost there is none, and the attempt has to be stored anew before its call leaves.
 * P2 Each record has its own: a set of claims gives its volumes intents of one id.
 */
import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";
import type { CallSite } from "../domain/open-call.ts";

export interface CallOrders {
  /** A commit has stored the intent of a record, or that it has none. */
  note(key: string, intent: CallSite | undefined, order: CommitOrder): void;
  of(key: string, opId: string): CallOrder | undefined;
  /** Records with an intent of this life. */
  keys(): readonly string[];
  /** A later call of the subject has left, or may have: the attempt has to be stored anew. */
  forget(key: string): void;
}

/** Of intents that other controllers have dropped nothing is heard here; P1 holds for one that is forgotten too early. */
const remembered = 65_536;

export const createCallOrders = (issuer: string): CallOrders => {
  const orders = new Map<string, CallOrder>();
  return {
    note(key, intent, { gen, sequence }) {
      orders.delete(key);
      if (intent?.issuer !== issuer) return;
      orders.set(key, { gen, sequence, opId: intent.opId });
      const oldest = orders.size > remembered ? orders.keys().next().value : undefined;
      if (oldest !== undefined) orders.delete(oldest);
    },
    of(key, opId) {
      const order = orders.get(key);
      return order?.opId === opId ? order : undefined;
    },
    keys: () => [...orders.keys()],
    forget: (key) => void orders.delete(key),
  };
};
