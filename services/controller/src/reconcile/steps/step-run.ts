import type { Clock } from "@holdfast/shared/async/clock";
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Change, noChange } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import { afterCall, assigned, storedAnew } from "../../domain/open-call.ts";
import type { Failure, Outcome } from "../../domain/outcome.ts";
import type { Step } from "../../domain/steps.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { AgentGateway, CallContext, ControllerPlugins, Nodes, StoreGate } from "../../ports.ts";
import type { LearnedLimits } from "../../records/attachment/learned-limits.ts";
import type { GrantFactsOf } from "../../records/grant-facts.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { Failpoint } from "../failpoints.ts";
import type { CallSlots } from "../plugin/call-slots.ts";
import type { CallRights } from "../plugin/call-turn.ts";
import { type Attempt, underIntent, unsent } from "../plugin/under-intent.ts";

/** What steps work with. */
export interface StepDeps {
  readonly records: VolumeRecords;
  readonly learned: Pick<LearnedLimits, "learn" | "forget">;
  readonly plugins: ControllerPlugins;
  readonly agents: AgentGateway;
  readonly nodes: Nodes;
  readonly gate: StoreGate;
  readonly factsOf: GrantFactsOf;
  readonly clock: Clock;
  readonly slots: CallSlots;
  readonly failpoint: Failpoint;
  /** Which calls are this controller's to make. */
  readonly rights: CallRights;
  /** Looks at the volume again after a while, if nothing wakes it before. */
  readonly wakeLater: (ms: number, key: string) => void;
  /** Calls that left and whose answers are not stored yet: by volume, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  /** By storage: a record that was given up while its storage was asked about may be followed by another one of the same storage. */
  readonly validating: KeyedLanes;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** One run of a step. */
export interface StepRun {
  /** The record from which the step was planned. */
  readonly volume: VolumeRecord;
  readonly traceId: string | undefined;
}

/** The calls that leave under an intent, as failpoints name them. */
type IntentPoint = "create" | "delete" | "attach" | "detach" | "expand" | "modify";

export type StepNamed<D extends Step["do"]> = Extract<Step, { readonly do: D }>;

/** True = something was stored, so that the volume is planned anew; false = it has to wait for something to change. */
export type StepHandler<D extends Step["do"]> = (deps: StepDeps, step: StepNamed<D>, run: StepRun) => Promise<boolean>;

export const failureOf = (error: unknown, method: string): Failure => ({
  reason: isHoldfastError(error) ? error.reason : "INTERNAL",
  message: error instanceof Error ? error.message : String(error),
  advice: "again",
  method,
});

/** As this controller knows it: enough to leave a queue, never to make a call. */
export const currentOf = async (
  { records }: Pick<StepDeps, "records">,
  volume: VolumeRecord,
): Promise<VolumeRecord | undefined> => {
  const now = (await records.recent(volume))?.volume;
  return now?.uid === volume.uid ? now : undefined;
};

export const stored = ({ unstored }: StepDeps, volume: VolumeRecord): void => void unstored.delete(volumeKey(volume));

/** Of a record that has it: the step was planned for it, and `stillRight` has seen it again. */
export const attachmentOf = ({ attachments }: VolumeRecord, node: string): Attachment => {
  const found = attachments[node];
  if (found === undefined) throw new Error(`the record has no attachment to node ${node}`);
  return found;
};

/** A plugin that cannot be called: nothing was sent, and the volume's one call is not held for it. */
export const awayFailure = (reason: string): Failure => ({
  reason: "PLUGIN_NOT_READY",
  message: reason,
  advice: "again",
  call: "not-sent",
});

/** The call of the volume, under the intent that the record has. */
export const callUnder = async <T>(
  deps: StepDeps,
  name: IntentPoint,
  planned: VolumeRecord,
  stillRight: (now: VolumeRecord) => boolean,
  call: (now: VolumeRecord, context: Pick<CallContext, "signal" | "wanted">) => Promise<Outcome<T>>,
): Promise<Attempt<T> | undefined> => {
  const { records, plugins, unstored, rights, signal, wakeLater } = deps;
  const key = volumeKey(planned);
  const { intent } = planned;
  if (intent !== undefined && intent.via === undefined) {
    const via = await plugins.seek(planned);
    if (typeof via !== "string") return unsent(intent.opId, via);
    const give = (v: VolumeRecord, at: Moment): Change => noChange(assigned(v, intent.opId, via, at));
    if (!(await records.change(planned, give)).changed) return undefined;
  } else if (intent !== undefined && records.orders.of(key, intent.opId) === undefined) {
    const left = notCalled(deps, planned);
    const again = (v: VolumeRecord, at: Moment): Change => noChange(storedAnew(v, left, at));
    if (!(await records.change(planned, again, { settles: left })).changed) return undefined;
    unstored.delete(key);
  }
  return await underIntent<VolumeRecord, T>({
    key,
    uid: planned.uid,
    issuer: rights.issuer,
    unstored,
    orders: records.orders,
    known: async () => (await records.recent(planned))?.volume,
    read: async () => (await records.current(planned))?.volume,
    stillRight,
    make: (now, wanted) => settle<T, IntentPoint>(deps, name, () => call(now, { signal, wanted })),
    lookAgain: (afterMs) => wakeLater(afterMs, key),
  });
};

/** An answer is about the intent that it was asked for: the same pair may be under another one by the time it comes. */
export const answered =
  ({ opId, end }: Pick<Attempt<unknown>, "opId" | "end">, decide: Decide): Decide =>
  (volume, at) =>
    volume.intent?.opId === opId ? decide(afterCall(volume, end, at), at) : noChange(volume);

/** Nothing was sent for the intent in this turn. */
export const notCalled = ({ unstored }: StepDeps, volume: VolumeRecord): Pick<Attempt<unknown>, "opId" | "end"> => {
  const opId = volume.intent?.opId ?? "";
  return { opId, end: unstored.get(volumeKey(volume)) === opId ? "open" : "not-sent" };
};

/**
 * The call with its failpoints: what precedes it is durable, what follows is not stored yet. A call that throws instead of
 * answering leaves its outcome unknown; one that was given up because this process stops is left to the next life.
 */
export const settle = async <T, Name extends string>(
  deps: {
    readonly failpoint: (name: `controller.${Name}.${"after-commit" | "after-call"}`) => void | Promise<void>;
    readonly signal: AbortSignal;
  },
  name: Name,
  call: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> => {
  await deps.failpoint(`controller.${name}.after-commit`);
  deps.signal.throwIfAborted();
  const outcome = await call().catch((error: unknown): Outcome<T> => {
    deps.signal.throwIfAborted();
    return { kind: "unknown", failure: failureOf(error, name) };
  });
  deps.signal.throwIfAborted();
  await deps.failpoint(`controller.${name}.after-call`);
  return outcome;
};
