import type { CallOrder } from "@holdfast/model/call-order";
import type { GateAnswer } from "../../domain/bar.ts";
import { barAnswered, barAsked, barStands, isOwnedPair } from "../../domain/bar.ts";
import { gateAway } from "../../domain/bar-block.ts";
import type { Change } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { Leave } from "../../domain/open-call.ts";
import type { Failed, Failure, Outcome } from "../../domain/outcome.ts";
import { isOnNode } from "../../domain/plugin/instance-name.ts";
import { type Bar, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { CallContext } from "../../ports.ts";
import { failureOf } from "../owed/under-intent.ts";
import { type CallRights, relookMs } from "../plugin/call-turn.ts";
import type { StepDeps, StepHandler } from "./step-run.ts";

/** How the end of an overtaken call can be known to this controller now. */
type Inquiry =
  /** The gate is there in the life that had the call. */
  | "ask"
  /** That life is over, or one before it may have the call: the same call once more at that instance, or its undo, ends whatever is left of it. */
  | "repeat"
  /** Another controller's to find out, or the gate is away. */
  | "wait";

export const inquiryOf = (rights: CallRights, key: string, { plugin }: VolumeRecord, bar: Bar): Inquiry => {
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

/** An overtaken call is not repeated beside the record's own call for the same. */
const isBusyWith = ({ intent }: VolumeRecord, { op, node }: Bar): boolean =>
  intent !== undefined && (intent.op === op || (node !== "" && intent.node === node));

type Repeat = (context: CallContext) => Promise<Outcome<unknown>>;

/** The call of the bar once more at its instance, or its undo; undefined = the record has to move on first. */
const repeatOf = ({ plugins }: StepDeps, volume: VolumeRecord, bar: Bar): Repeat | undefined => {
  const { op, via, attachment, size = { required: volume.capacity.actual, limit: 0 }, parameters = {} } = bar;
  if (isBusyWith(volume, bar)) return undefined;
  const there: VolumeRecord = { ...volume, intent: { ...bar, via, epoch: volume.epoch } };
  switch (op) {
    case "attach":
    case "detach":
      // What the record has, its own detach ends.
      if (attachment === undefined || isOwnedPair(volume, bar)) return undefined;
      return (context) => plugins.unpublish(there, attachment, context);
    case "create":
      if (volume.externalId === "") return undefined;
      return async (context) => {
        // Another word than at first is other storage for the plugin, and refused.
        const mutableParameters = bar.parameters ?? volume.mutableParameters;
        const first = { ...there, capacity: { ...volume.capacity, ...bar.size }, mutableParameters };
        const made = await plugins.createVolume(first, context);
        return made.kind === "done" && made.value.externalId !== volume.externalId
          ? otherId(made.value.externalId)
          : made;
      };
    case "delete":
      return volume.externalId === "" ? undefined : (context) => plugins.deleteVolume(there, context);
    case "expand":
      return (context) => plugins.expandVolume(there, size, context);
    case "modify":
      return (context) => plugins.modifyVolume(there, parameters, context);
  }
};

const otherId = (externalId: string): Outcome<never> => ({
  kind: "unknown",
  failure: {
    reason: "STORAGE_TAKEN",
    message: `CreateVolume of the same name was answered with ${externalId}, which is other storage`,
    advice: "block",
    call: "ended",
  },
});

/** The call has to be undone, or its volume to be known: an answer alone does not do. */
const needsDone: ReadonlySet<Bar["op"]> = new Set<Bar["op"]>(["attach", "detach", "create"]);

/** The repeat was answered, and so the call before is over. A plugin that does not know the call is not at work on it either. */
const isOver = ({ op }: Bar, outcome: Failed): boolean => {
  const { call, code } = outcome.failure;
  return !needsDone.has(op) && (call === "ended" || code === "UNIMPLEMENTED");
};

const notOver = ({ kind, words }: Exclude<GateAnswer, { readonly kind: "idle" }>): Failure =>
  kind === "away"
    ? { reason: gateAway, message: words, advice: "again" }
    : { reason: "BAR_STANDS", message: words, advice: "again" };

/** What was stored before the gate is asked: the order of that commit is above all that the bar's call may have. */
interface Asked {
  readonly volume: VolumeRecord;
  readonly bar: Bar;
  readonly order: CallOrder;
}

/** The repeat leaves while the bar stands, as the store has it, and nobody has asked since. */
const repeated = (deps: StepDeps, { volume, bar, order }: Asked, call: Repeat): Promise<Outcome<unknown>> => {
  const { records, rights, signal } = deps;
  const gate = rights.instance({ plugin: volume.plugin, via: bar.via })?.gate;
  const wanted = async (instance: string): Promise<Leave | undefined> => {
    const now = (await records.current(volume))?.volume;
    const asked = now?.bars.find(({ opId }) => opId === bar.opId)?.asked;
    const still = now?.uid === volume.uid && asked?.opId === order.opId && instance === bar.via;
    return still && !isBusyWith(now, bar) ? { order: { ...order, gate } } : undefined;
  };
  return call({ signal, attempt: bar.attempts.count, wanted }).catch((error: unknown): Outcome<never> => {
    signal.throwIfAborted();
    return { kind: "unknown", failure: failureOf(error, bar.op) };
  });
};

/** Finds out whether the overtaken call of a bar has ended. */
export const liftStep: StepHandler<"lift"> = async (deps, { bar: id }, { volume: planned, traceId }) => {
  const { records, plugins, rights, gate, log, signal, wakeLater } = deps;
  const key = volumeKey(planned);
  const barOf = (volume: VolumeRecord | null) => volume?.bars.find(({ opId }) => opId === id);
  const known = barOf(planned);
  const inquiry = known === undefined || !gate.state().open ? "wait" : inquiryOf(rights, key, planned, known);
  if (known === undefined || inquiry === "wait") {
    wakeLater(relookMs, key);
    return false;
  }
  let question = "";
  const ask = async (): Promise<Asked | undefined> => {
    const { volume, order } = await records.change(planned, (v, at) => barAsked(v, id, at), { traceId });
    const bar = barOf(volume);
    if (volume === null || bar?.asked === undefined || order === undefined) return undefined;
    question = bar.asked.opId;
    return { volume, bar, order: { ...order, opId: bar.asked.opId } };
  };
  const settle = async (failure: Failure | undefined): Promise<boolean> => {
    const decide = (v: VolumeRecord, at: Moment): Change =>
      failure === undefined ? barAnswered(v, id, question, at) : barStands(v, id, failure, at);
    const { volume, changed } = await records.change(planned, decide, { traceId });
    if (changed && failure === undefined && barOf(volume) === undefined)
      log.info("a bar is lifted", { volume: key, bar: id, operation: known.op, instance: known.via, how: inquiry });
    return changed;
  };
  /** undefined: somebody has moved the record on meanwhile. */
  const quiesced = async (): Promise<GateAnswer | undefined> => {
    const asked = await ask();
    return asked && (await plugins.quiesce(asked.volume, asked.bar, asked.order, signal));
  };
  const repeat = async (): Promise<Outcome<unknown> | undefined> => {
    if (repeatOf(deps, planned, known) === undefined) return undefined;
    const asked = await ask();
    const call = asked && repeatOf(deps, asked.volume, asked.bar);
    return asked && call && (await repeated(deps, asked, call));
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
