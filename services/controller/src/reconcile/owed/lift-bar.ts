/** Finds out whether the overtaken call of a bar has ended, for volumes and for cuts, and lifts the bar when it has. */
import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";
import { barAsked, barStands, type GateAnswer } from "../../domain/bar.ts";
import { gateAway } from "../../domain/bar-block.ts";
import { isOffWithGate } from "../../domain/node/fence.ts";
import type { CallBar, Leave } from "../../domain/open-call.ts";
import type { Failed, Failure, Outcome } from "../../domain/outcome.ts";
import { isOnNode, nodeOfName } from "../../domain/plugin/instance-name.ts";
import type { CallContext, Nodes, StoreGate } from "../../ports.ts";
import { type CallRights, relookMs } from "../plugin/call-turn.ts";
import type { DecideOwed, Owed, Owing } from "./owed-call.ts";
import { failureOf } from "./under-intent.ts";

/** How the end of an overtaken call can be known to this controller now. */
type Inquiry =
  /** The gate is there in the life that had the call. */
  | "ask"
  /** That life is over, or one before it may have the call: the same call once more at that instance, or its undo, ends whatever is left of it. */
  | "repeat"
  /** Another controller's to find out, or the gate is away. */
  | "wait";

type BarOf<R extends Owing> = R["bars"][number];

export type Repeat = (context: CallContext) => Promise<Outcome<unknown>>;

/** What lifting needs beside the engine of owed calls. */
export interface Lifting<R extends Owing> {
  readonly gate: Pick<StoreGate, "state">;
  readonly nodes: Pick<Nodes, "get">;
  readonly quiesce: (record: R, bar: BarOf<R>, order: CommitOrder, signal: AbortSignal) => Promise<GateAnswer>;
  /** The call of the bar once more at its instance, or its undo; undefined = the record has to move on first. */
  readonly repeatOf: (record: R, bar: BarOf<R>) => Repeat | undefined;
}

export const inquiryOf = (
  rights: CallRights,
  key: string,
  { plugin }: Pick<Owing, "plugin">,
  bar: Pick<CallBar, "via" | "gate" | "gateEpoch" | "issuer" | "beyondGate">,
): Inquiry => {
  const { issuer, isFormerLife, drives, instance } = rights;
  if (!isOnNode(bar.via)) {
    if (bar.issuer === issuer && bar.beyondGate === undefined) return "ask";
    const own = bar.issuer === issuer || isFormerLife(bar.issuer);
    return own && instance({ plugin, via: bar.via }) !== undefined ? "repeat" : "wait";
  }
  const seat = drives(plugin, key) ? instance({ plugin, via: bar.via, gateEpoch: bar.gateEpoch }) : undefined;
  if (seat === undefined) return "wait";
  return seat.gate === bar.gate && bar.beyondGate === undefined ? "ask" : "repeat";
};

/** A person has seen that the host of the bar's gate is off: there is nobody to ask, and nothing left to end. */
const isOff = (nodes: Pick<Nodes, "get">, bar: Pick<CallBar, "via" | "gateEpoch">): boolean => {
  const record = nodes.get(nodeOfName(bar.via) ?? "")?.record;
  return record !== undefined && isOffWithGate(record, bar);
};

/** The call has to be undone, or the thing to be known: an answer alone does not do. */
const needsDone: ReadonlySet<string> = new Set(["attach", "detach", "create"]);

/** The repeat was answered, and so the call before is over. A plugin that does not know the call is not at work on it either. */
const isOver = ({ op }: Pick<CallBar, "op">, outcome: Failed): boolean => {
  const { call, code } = outcome.failure;
  return !needsDone.has(op) && (call === "ended" || code === "UNIMPLEMENTED");
};

const notOver = ({ kind, words }: Exclude<GateAnswer, { readonly kind: "idle" }>): Failure =>
  kind === "away"
    ? { reason: gateAway, message: words, advice: "again" }
    : { reason: "BAR_STANDS", message: words, advice: "again" };

/** What was stored before the gate is asked: the order of that commit is above all that the bar's call may have. */
interface Asked<R extends Owing> {
  readonly record: R;
  readonly bar: BarOf<R>;
  readonly order: CallOrder;
}

export const liftBar = async <R extends Owing, C>(
  { records, rights, log, signal, wakeLater }: Pick<Owed<R, C>, "records" | "rights" | "log" | "signal" | "wakeLater">,
  { gate, nodes, quiesce, repeatOf }: Lifting<R>,
  planned: R,
  id: string,
  traceId: string | undefined,
): Promise<boolean> => {
  const key = records.keyOf(planned);
  const barOf = (record: R | undefined): BarOf<R> | undefined => record?.bars.find(({ opId }) => opId === id);
  const known = barOf(planned);
  if (known !== undefined && gate.state().open && isOff(nodes, known)) {
    const { changed } = await records.change(planned, (r, at) => records.lifted(r, id, at), { traceId });
    if (changed) log.info("a bar is lifted", { record: key, bar: id, instance: known.via, how: "its host was fenced" });
    return changed;
  }
  const inquiry = known === undefined || !gate.state().open ? "wait" : inquiryOf(rights, key, planned, known);
  if (known === undefined || inquiry === "wait") {
    wakeLater(relookMs, key);
    return false;
  }
  /** The last one that this step has stored. */
  let question = "";
  const ask = async (): Promise<Asked<R> | undefined> => {
    const { record, order } = await records.change(planned, (r, at) => records.keep(barAsked(r, id, at)), { traceId });
    const bar = barOf(record);
    if (record === undefined || bar?.asked === undefined || order === undefined) return undefined;
    question = bar.asked.opId;
    return { record, bar, order: { ...order, opId: question } };
  };
  const settle = async (failure: Failure | undefined): Promise<boolean> => {
    const decide: DecideOwed<R, C> = (r, at) => {
      if (failure !== undefined) return records.keep(barStands(r, id, failure, at));
      return barOf(r)?.asked?.opId === question ? records.lifted(r, id, at) : records.keep(r); // BR3
    };
    const { record, changed } = await records.change(planned, decide, { traceId });
    if (changed && failure === undefined && barOf(record) === undefined)
      log.info("a bar is lifted", { record: key, bar: id, operation: known.op, instance: known.via, how: inquiry });
    return changed;
  };
  /** undefined: somebody has moved the record on meanwhile. */
  const quiesced = async (): Promise<GateAnswer | undefined> => {
    const asked = await ask();
    return asked && (await quiesce(asked.record, asked.bar, asked.order, signal));
  };
  /** The repeat leaves while the bar stands, as the store has it, and nobody has asked since. */
  const repeated = ({ record, bar, order }: Asked<R>, call: Repeat): Promise<Outcome<unknown>> => {
    const seat = rights.instance({ ...record, via: bar.via });
    const wanted = async (instance: string): Promise<Leave | undefined> => {
      const now = await records.read(record);
      const standing = now?.uid === record.uid && instance === bar.via ? barOf(now) : undefined;
      const still = now !== undefined && standing?.asked?.opId === order.opId && gate.state().open;
      return still && repeatOf(now, standing) !== undefined ? { order: { ...order, gate: seat?.gate } } : undefined;
    };
    return call({ signal, attempt: bar.attempts.count, wanted }).catch((error: unknown): Outcome<never> => {
      signal.throwIfAborted();
      return { kind: "unknown", failure: failureOf(error) };
    });
  };
  const repeat = async (): Promise<Outcome<unknown> | undefined> => {
    if (repeatOf(planned, known) === undefined) return undefined;
    const asked = await ask();
    const call = asked && repeatOf(asked.record, asked.bar);
    return asked && call && (await repeated(asked, call));
  };
  const failureOfRepeat = (outcome: Outcome<unknown>): Failure | undefined =>
    outcome.kind === "done" || isOver(known, outcome) ? undefined : outcome.failure;
  if (inquiry === "repeat") {
    const outcome = await repeat();
    return outcome !== undefined && (await settle(failureOfRepeat(outcome)));
  }
  let answer = await quiesced();
  if (answer?.kind === "in-doubt") {
    const outcome = await repeat();
    const failure = outcome && failureOfRepeat(outcome);
    if (failure !== undefined) return await settle(failure);
    if (outcome?.kind === "refused" && outcome.failure.call === "not-sent") return await settle(undefined);
    if (outcome !== undefined) answer = await quiesced();
  }
  return answer !== undefined && (await settle(answer.kind === "idle" ? undefined : notOver(answer)));
};
