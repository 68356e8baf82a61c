import { type CallEnd, type CallSite, endOf, type Leave } from "../../domain/open-call.ts";
import { type Failure, isStale, type Outcome } from "../../domain/outcome.ts";
import type { CallContext } from "../../ports.ts";
import type { CallOrders } from "../../records/call-orders.ts";

/** An attempt of the one call of a record, as far as its answer has to be stored. */
export interface Attempt<T> {
  /** The intent that it was made for. */
  readonly opId: string;
  readonly outcome: Outcome<T>;
  readonly end: CallEnd;
  /** An earlier attempt of this life was answered to nobody, so that a refusal now proves nothing (I5). */
  readonly unstored: boolean;
}

export interface UnderIntent<R, T> {
  readonly key: string;
  /** Of the record that the call was planned for. */
  readonly uid: string;
  /** This controller, in this life. */
  readonly issuer: string;
  /** Calls that left and whose answers are not stored yet: by record, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  readonly orders: CallOrders;
  /** As this controller knows it: what the call says is taken from it. */
  readonly known: () => Promise<R | undefined>;
  /** As the store has told of it in this turn of the event loop. */
  readonly read: () => Promise<R | undefined>;
  readonly stillRight: (now: R) => boolean;
  /** `wanted` is asked last, with the instance that is about to be called. */
  readonly make: (now: R, wanted: NonNullable<CallContext["wanted"]>) => Promise<Outcome<T>>;
  /** The record is to be read, and its step planned, anew. */
  readonly lookAgain: (afterMs: number) => void;
}

/** An order may be stale over and over while the store counts below what the holder of the socket has seen. */
const staleMs = 500;

/**
 * One call under an intent. It leaves only when the record, as the store has it in the very turn in which the call leaves, has this intent
 * of this life for the instance that is called, and `stillRight` holds of it. undefined = it is not right any more, or its order is stale,
 * and nothing was sent; rejects when the store cannot be read, and nothing was sent either.
 */
export const underIntent = async <R extends { readonly uid: string; readonly intent?: CallSite }, T>({
  key,
  uid,
  issuer,
  unstored,
  orders,
  known,
  read,
  stillRight,
  make,
  lookAgain,
}: UnderIntent<R, T>): Promise<Attempt<T> | undefined> => {
  const now = await known();
  if (now?.uid !== uid || now.intent?.via === undefined || !stillRight(now)) return undefined;
  const { opId } = now.intent;
  const before = unstored.get(key) === opId;
  let stopped: { readonly error?: unknown } | undefined;
  const wanted = async (instance: string): Promise<Leave | undefined> => {
    try {
      const stored = await read();
      const { intent } = stored ?? {};
      const order = orders.of(key, opId);
      const ours = intent?.opId === opId && intent.issuer === issuer && intent.via === instance;
      if (order !== undefined && stored?.uid === uid && ours && stillRight(stored)) {
        unstored.set(key, opId);
        return { order };
      }
      stopped = {};
    } catch (error) {
      stopped = { error };
    }
    return undefined;
  };
  const outcome = await make(now, wanted);
  if (stopped?.error !== undefined) throw stopped.error;
  if (stopped !== undefined) {
    lookAgain(0);
    return undefined;
  }
  if (outcome.kind !== "done" && isStale(outcome.failure)) {
    if (!before) unstored.delete(key);
    orders.forget(key);
    lookAgain(staleMs);
    return undefined;
  }
  const end = endOf(outcome);
  const hangs = now.intent.openSince !== undefined && end === "open" && outcome.kind === "unknown";
  if (hangs && outcome.failure.code === "DEADLINE_EXCEEDED")
    return { opId, outcome: { kind: "unknown", failure: hanging(now.intent, outcome.failure) }, end, unstored: before };
  return { opId, outcome, end: before && end === "not-sent" ? "open" : end, unstored: before };
};

/** No instance may be given the call. */
export const unsent = (opId: string, failure: Failure): Attempt<never> => ({
  opId,
  outcome: { kind: "unknown", failure },
  end: "not-sent",
  unstored: false,
});

/** The time of the call has passed once more, and the plugin still has not answered it. */
const hanging = ({ via, openSince = 0 }: CallSite, { method, code, message }: Failure): Failure => ({
  reason: "PLUGIN_HANGS",
  message: `plugin instance "${via}" has not answered ${method} since ${new Date(openSince).toISOString()}: ${message}`,
  advice: "block",
  ...(method === undefined ? {} : { method }),
  ...(code === undefined ? {} : { code }),
});
