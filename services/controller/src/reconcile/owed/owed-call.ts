/** The words of the engine: a record that owes a call, where such records are kept, and one call as its step describes it. */
import type { CommitOrder } from "@holdfast/model/call-order";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Barred } from "../../domain/bar.ts";
import type { Moment } from "../../domain/moment.ts";
import type { CallEnd, CallNews, Seat } from "../../domain/open-call.ts";
import type { Attempts, Failure, Outcome } from "../../domain/outcome.ts";
import type { CallContext } from "../../ports.ts";
import type { CallOrders } from "../../records/call-orders.ts";
import type { CommitEnd } from "../../records/commit-rounds.ts";
import type { CallPoint, Failpoint } from "../failpoints.ts";
import type { CallSlots, SlotRequest } from "../plugin/call-slots.ts";
import type { CallRights } from "../plugin/call-turn.ts";

/** A record with at most one call, which its intent describes. */
export interface Owing extends Barred {
  readonly uid: string;
  readonly plugin: string;
}

export type DecideOwed<R, C> = (record: R, at: Moment) => C;

export interface OwedOptions {
  readonly traceId?: string | undefined;
  readonly settles?: CallNews | undefined;
}

export interface OwedResult<R> {
  readonly changed: boolean;
  /** After the change. */
  readonly record?: R | undefined;
  /** Of the commit that changed it. */
  readonly order?: CommitOrder | undefined;
  /** Another record carries an entry that the decision has to be alone with: nothing was stored. */
  readonly crowded?: true | undefined;
}

/** The records of one kind; `C` is a decision about one of them. */
export interface OwedRecords<R, C> {
  readonly orders: CallOrders;
  keyOf(record: R): string;
  /** As this controller knows the record: a call says no more than this. */
  known(record: R): Promise<R | undefined>;
  /** As the store has told of the record in this turn of the event loop. */
  read(record: R): Promise<R | undefined>;
  change(record: R, decide: DecideOwed<R, C>, options: OwedOptions): Promise<OwedResult<R>>;
  /** The decision for a record as it is; the record that came in = nothing changes. */
  keep(record: R): C;
  /** The call may be open and nothing can be asked now: the intent stays, and the record says why. */
  waits(record: R, failure: Failure, at: Moment): C;
  /** The same call at another gate, and a bar for the one before. */
  overtaken(record: R, opId: string, seat: Seat | undefined, at: Moment): R;
  /** The overtaken call of the bar has ended. */
  lifted(record: R, opId: string, at: Moment): C;
  /** An attempt of the intent may have done its work, and its answer is not stored. */
  doubted(record: R, at: Moment): R;
}

export interface Owed<R extends Owing, C> {
  readonly records: OwedRecords<R, C>;
  /** The instance to give the call to, looked for where none is known. */
  readonly seek: (record: R) => Promise<Seat | Failure>;
  readonly rights: CallRights;
  readonly slots: Pick<CallSlots, "run" | "runIfWanted">;
  readonly clock: Pick<Clock, "now" | "timer">;
  readonly failpoint: Failpoint;
  /** Calls that left and whose answers are not stored yet: by record, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  /** Only of a step that began beside the commit of its record: resolves when that commit has ended. */
  readonly stored?: (() => Promise<CommitEnd>) | undefined;
  /** The record is to be read, and its step planned, anew. */
  readonly wakeLater: (ms: number, key: string) => void;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Ends the wait for a slot; a call that runs goes on until `signal`. */
  readonly taking: AbortSignal;
  readonly signal: AbortSignal;
}

/** An attempt of the one call of a record, as far as its answer has to be stored. */
export interface Attempt<T> {
  /** The intent that it was made for. */
  readonly opId: string;
  readonly outcome: Outcome<T>;
  readonly end: CallEnd;
  /** An earlier attempt of this life was answered to nobody, so that a refusal now proves nothing (I5). */
  readonly unstored: boolean;
}

type AttemptContext = Pick<CallContext, "signal" | "attempt" | "wanted">;

/** One call of a record, as its step describes it. */
export interface OwedCall<R, C, T> {
  /** As failpoints name it. */
  readonly point: CallPoint;
  /** With a subject, the call leaves the queue when it is not right any more. */
  readonly request: Omit<SlotRequest, "plugin">;
  readonly attemptsOf: (record: R) => Attempts | undefined;
  /** Of the record as it is now: the call may still leave. */
  readonly stillRight: (now: R) => boolean;
  readonly call: (now: R, context: AttemptContext) => Promise<Outcome<T>>;
  /** Told of the attempt before its answer is stored. */
  readonly ended?: (attempt: Attempt<T>) => Promise<void>;
  readonly answered: (record: R, outcome: Outcome<T>, at: Moment) => C;
  /** In place of the plain change of the record. */
  readonly store?: (
    outcome: Outcome<T>,
    decide: DecideOwed<R, C>,
    options: OwedOptions,
  ) => Promise<Pick<OwedResult<R>, "changed" | "crowded">>;
  /** The answer belongs to another record: the decision instead of it; undefined = that record has gone meanwhile. */
  readonly crowded?: (value: T) => Promise<DecideOwed<R, C> | undefined>;
}
