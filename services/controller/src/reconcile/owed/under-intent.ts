/**
 * One call under the intent of its record.
 *
 * U1 The call leaves only when the record, as the store has it in the very turn in which the call leaves, has this intent of this life for
 * the instance that is called, and the step says that it is still right. U2 An intent has its instance, and its place among the commits,
 * before its call leaves; one without a place is stored anew, and so is one that was meant for an earlier life of its gate. U3 So is one
 * whose call may be open: of two calls with one order the gate runs the later again when the other has ended without a final answer.
 * U4 An attempt tells nothing of the call of another intent that the record has by now: that may be another controller's, and open.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  assigned,
  type CallNews,
  type CallSite,
  endOf,
  type Leave,
  seatOfCall,
  storedAnew,
} from "../../domain/open-call.ts";
import { type Failure, isStale, type Outcome } from "../../domain/outcome.ts";
import type { CallPoint } from "../failpoints.ts";
import { watchCall } from "./long-call.ts";
import type { Attempt, Owed, OwedCall, Owing } from "./owed-call.ts";

/** An order may be stale over and over while the store counts below what the holder of the socket has seen. */
const staleMs = 500;

/** Thrown instead of answered: no call of the plugin is known to have been made. */
export const failureOf = (error: unknown): Failure => ({
  reason: isHoldfastError(error) ? error.reason : "INTERNAL",
  message: error instanceof Error ? error.message : String(error),
  advice: "again",
});

/** Nothing was sent for the intent in this turn. */
export const notCalled = <R extends Owing, C>(
  { records, unstored }: Pick<Owed<R, C>, "records" | "unstored">,
  record: R,
): CallNews => {
  const opId = record.intent?.opId ?? "";
  return { opId, end: unstored.get(records.keyOf(record)) === opId ? "open" : "not-sent" };
};

/**
 * The call with its failpoints: what precedes it is durable, what follows is not stored yet. A call that throws instead of
 * answering leaves its outcome unknown; one that was given up because this process stops is left to the next life.
 */
const settled = async <R extends Owing, C, T>(
  { failpoint, signal }: Owed<R, C>,
  point: CallPoint,
  call: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> => {
  await failpoint(`controller.${point}.after-commit`);
  signal.throwIfAborted();
  const outcome = await call().catch((error: unknown): Outcome<T> => {
    signal.throwIfAborted();
    return { kind: "unknown", failure: failureOf(error) };
  });
  signal.throwIfAborted();
  await failpoint(`controller.${point}.after-call`);
  return outcome;
};

/** U2. A failure: no instance may be given the call. undefined = the record is under another intent by now. */
const readied = async <R extends Owing, C>(owed: Owed<R, C>, record: R): Promise<R | Failure | undefined> => {
  const { records, rights, seek, unstored } = owed;
  const { intent } = record;
  const key = records.keyOf(record);
  if (intent === undefined) return record;
  if (intent.via === undefined) {
    const found = await seek(record);
    if (!("via" in found)) return found;
    const given = await records.change(record, (r, at) => records.keep(assigned(r, intent.opId, found, at)), {});
    return given.changed ? given.record : undefined;
  }
  const { via } = intent;
  const settles = notCalled(owed, record);
  // What never left may go to any life.
  const gateEpoch = settles.end === "open" || intent.openSince !== undefined ? intent.gateEpoch : undefined;
  const seat = rights.instance({ ...record, via, gateEpoch }) ?? seatOfCall(via, intent);
  if (seat.gate === intent.gate && records.orders.of(key, intent.opId) !== undefined) return record;
  const again = await records.change(record, (r, at) => records.keep(storedAnew(r, settles, seat, at)), { settles });
  if (!again.changed) return undefined;
  unstored.delete(key);
  return again.record;
};

/** undefined = it is not right any more, or its order is stale, and nothing was sent; rejects when the store cannot be read. */
export const underIntent = async <R extends Owing, C, T>(
  owed: Owed<R, C>,
  { point, attemptsOf, stillRight, call }: OwedCall<R, C, T>,
  planned: R,
): Promise<Attempt<T> | undefined> => {
  const { records, rights, log, signal, taking, unstored, wakeLater } = owed;
  const { uid, intent: its } = planned;
  const key = records.keyOf(planned);
  if (owed.stored !== undefined) {
    const became = await owed.stored();
    const isStored = its !== undefined && records.orders.of(key, its.opId) !== undefined;
    if (!isStored && became === "unknown") wakeLater(0, key);
    if (!isStored || taking.aborted) return undefined; // ES4 of early-steps.ts
  }
  const given = await readied(owed, planned);
  if (given === undefined) return undefined;
  if (!("uid" in given))
    return { opId: its?.opId ?? "", outcome: { kind: "unknown", failure: given }, end: "not-sent", unstored: false };
  const now = await records.known(given);
  if (now?.uid !== uid || now.intent?.via === undefined || !stillRight(now)) return undefined;
  const { opId } = now.intent;
  if (opId !== given.intent?.opId) return undefined; // U4
  const before = unstored.get(key) === opId;
  const attempt = (attemptsOf(now)?.count ?? 0) + 1;
  const lasts = watchCall(owed, given, opId, attempt);
  let stopped: { readonly error?: unknown } | undefined;
  const wanted = async (instance: string): Promise<Leave | undefined> => {
    try {
      const stored = await records.read(planned);
      const { intent } = stored ?? {};
      const order = records.orders.of(key, opId);
      const ours = intent?.opId === opId && intent.issuer === rights.issuer && intent.via === instance;
      if (order !== undefined && stored?.uid === uid && ours && stillRight(stored)) {
        unstored.set(key, opId);
        return {
          order: { ...order, gate: intent.gate },
          begun: (method, deadlineMs) => lasts.begun(method, deadlineMs, instance),
        };
      }
      stopped = {};
    } catch (error) {
      stopped = { error };
    }
    return undefined;
  };
  const outcome = await settled(owed, point, () => call(now, { signal, attempt, wanted })).finally(lasts.end);
  if (stopped?.error !== undefined) throw stopped.error;
  if (stopped !== undefined) {
    wakeLater(0, key);
    return undefined;
  }
  if (outcome.kind !== "done" && isStale(outcome.failure)) {
    if (!before) unstored.delete(key);
    records.orders.forget(key);
    log.info("a call was refused as overtaken on its way, and is stored anew", {
      record: key,
      instance: now.intent.via,
    });
    wakeLater(staleMs, key);
    return undefined;
  }
  const end = endOf(outcome);
  if (end === "open") records.orders.forget(key); // U3
  const hangs = now.intent.openSince !== undefined && end === "open" && outcome.kind === "unknown";
  if (hangs && outcome.failure.code === "DEADLINE_EXCEEDED")
    return { opId, outcome: { kind: "unknown", failure: hanging(now.intent, outcome.failure) }, end, unstored: before };
  return { opId, outcome, end: before && end === "not-sent" ? "open" : end, unstored: before };
};

/** The time of the call has passed once more, and the plugin still has not answered it. */
const hanging = ({ via, openSince = 0 }: CallSite, { method, code, message }: Failure): Failure => ({
  reason: "PLUGIN_HANGS",
  message: `plugin instance "${via}" has not answered ${method} since ${new Date(openSince).toISOString()}: ${message}`,
  advice: "block",
  ...(method === undefined ? {} : { method }),
  ...(code === undefined ? {} : { code }),
});
