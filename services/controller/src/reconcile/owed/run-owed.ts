/**
 * The one engine of owed calls, for volumes and for cuts: turn, slot, call, stored answer.
 *
 * W1 A step runs only in the turn of its record's call. W2 An answer is stored only over the intent that it was asked for: the record may
 * be under another one by the time it comes. W3 After an attempt that left and whose answer was not stored, the intent is in doubt (I5).
 */
import { afterCall, assigned, type CallNews, inherited } from "../../domain/open-call.ts";
import { relookMs, turnOf } from "../plugin/call-turn.ts";
import type { DecideOwed, Owed, OwedCall, Owing } from "./owed-call.ts";
import { notCalled, underIntent } from "./under-intent.ts";

/** W2, W3. */
const answered =
  <R extends Owing, C>(
    { records }: Pick<Owed<R, C>, "records">,
    { opId, end, unstored = false }: CallNews & { readonly unstored?: boolean },
    decide: DecideOwed<R, C>,
  ): DecideOwed<R, C> =>
  (record, at) => {
    if (record.intent?.opId !== opId) return records.keep(record);
    const after = afterCall(record, end, at);
    return decide(unstored ? records.doubted(after, at) : after, at);
  };

/** W1. The record under which the call is this controller's to make; otherwise whether anything was stored instead of it. */
export const takeTurn = async <R extends Owing, C>(
  { records, rights, clock, log, wakeLater }: Owed<R, C>,
  record: R,
  traceId: string | undefined,
): Promise<R | boolean> => {
  const turn = turnOf(rights, records.keyOf(record), record, clock.now());
  const opId = record.intent?.opId ?? "";
  const store = (decide: DecideOwed<R, C>) =>
    records.change(record, (r, at) => (r.intent?.opId === opId ? decide(r, at) : records.keep(r)), {
      traceId,
      settles: { opId, end: "open" },
    });
  const own = async (give: DecideOwed<R, R>): Promise<R | boolean> => {
    const { changed, record: now } = await store((r, at) =>
      // Another life's call may have done its work.
      records.keep(give(r.intent?.issuer === at.issuer ? r : records.doubted(r, at), at)),
    );
    return changed && (now ?? true);
  };
  switch (turn.kind) {
    case "run":
      return record;
    case "take":
      return await own((r, at) => assigned(r, opId, turn.seat, at));
    case "inherit":
      return await own((r, at) => inherited(r, opId, turn.seat, at));
    case "overtake": {
      const now = await own((r, at) => records.overtaken(r, opId, turn.seat, at));
      if (now !== false)
        log.warn("a gate does not answer: its call goes to another one, behind a bar", {
          record: records.keyOf(record),
          operation: record.intent?.op,
          instance: record.intent?.via,
          to: turn.seat?.via ?? "one that another controller chooses",
        });
      return now;
    }
    case "blocked":
      return (await store((r, at) => records.waits(r, turn.failure, at))).changed;
    case "wait":
      wakeLater(relookMs, records.keyOf(record));
      return false;
  }
};

/** A decision about the call of the record that needs no call. */
export const withoutCall = async <R extends Owing, C>(
  owed: Owed<R, C>,
  record: R,
  traceId: string | undefined,
  decide: DecideOwed<R, C>,
): Promise<boolean> => {
  const settles = notCalled(owed, record);
  return (await owed.records.change(record, answered(owed, settles, decide), { traceId, settles })).changed;
};

/** True = something was stored, so that the record is planned anew; false = the call has to wait for something to change. */
export const runOwed = async <R extends Owing, C, T>(
  owed: Owed<R, C>,
  record: R,
  traceId: string | undefined,
  call: OwedCall<R, C, T>,
): Promise<boolean> => {
  const { records, slots, taking, unstored } = owed;
  const { plugin, uid } = record;
  const request = { plugin, repeat: (call.attemptsOf(record)?.count ?? 0) > 0, ...call.request };
  const stillWanted = async (): Promise<boolean> => {
    const now = await records.known(record);
    return now?.uid === uid && call.stillRight(now);
  };
  const make = () => underIntent(owed, call, record);
  const attempt = await (request.subject === undefined
    ? slots.run(request, taking, make)
    : slots.runIfWanted(request, stillWanted, taking, make));
  if (attempt === undefined) return false;
  const { outcome } = attempt;
  await call.ended?.(attempt);
  const options = { traceId, settles: attempt };
  const decide = answered(owed, attempt, (r, at) => call.answered(r, outcome, at));
  const result = await (call.store?.(outcome, decide, options) ?? records.change(record, decide, options));
  let { changed } = result;
  if (result.crowded && outcome.kind === "done") {
    const instead = await call.crowded?.(outcome.value);
    changed =
      instead === undefined || (await records.change(record, answered(owed, attempt, instead), options)).changed;
  }
  unstored.delete(records.keyOf(record));
  return changed;
};
