import type { Clock } from "@holdfast/shared/async/clock";
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { noChange } from "../domain/change.ts";
import type { Failure, Outcome } from "../domain/outcome.ts";
import type { Step } from "../domain/steps.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume.ts";
import type { AgentGateway, ControllerPlugins, Nodes, StoreGate } from "../ports.ts";
import type { GrantFactsOf } from "../records/grant-facts.ts";
import type { LearnedLimits } from "../records/learned-limits.ts";
import type { Decide } from "../records/volume-decisions.ts";
import type { VolumeRecords } from "../records/volume-records.ts";
import type { CallSlots } from "./call-slots.ts";
import type { Failpoint } from "./failpoints.ts";

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

export type StepNamed<D extends Step["do"]> = Extract<Step, { readonly do: D }>;

/** True = something was stored, so that the volume is planned anew; false = it has to wait for something to change. */
export type StepHandler<D extends Step["do"]> = (deps: StepDeps, step: StepNamed<D>, run: StepRun) => Promise<boolean>;

export const failureOf = (error: unknown, method: string): Failure => ({
  reason: isHoldfastError(error) ? error.reason : "INTERNAL",
  message: error instanceof Error ? error.message : String(error),
  advice: "again",
  method,
});

/**
 * Marks a call for an intent as answered to nobody until `stored`. True: an earlier one of this life was, so that a refusal now
 * proves nothing (I5). A life that ends before it could store an answer is told by the intent's issuer instead.
 */
export const leaving = ({ unstored }: StepDeps, volume: VolumeRecord): boolean => {
  const { intent } = volume;
  if (intent === undefined) return false;
  const before = unstored.get(volumeKey(volume)) === intent.opId;
  unstored.set(volumeKey(volume), intent.opId);
  return before;
};

export const stored = ({ unstored }: StepDeps, volume: VolumeRecord): void => void unstored.delete(volumeKey(volume));

/** A plugin that cannot be called: nothing was sent, and the volume's one call is not held for it. */
export const awayFailure = (reason: string): Failure => ({
  reason: "PLUGIN_NOT_READY",
  message: reason,
  advice: "again",
});

/** The record as it is when the call leaves; waiting for a slot may have taken long. */
export const currentOf = async (
  { records }: Pick<StepDeps, "records">,
  volume: VolumeRecord,
): Promise<VolumeRecord | undefined> => {
  const now = (await records.recent(volume))?.volume;
  return now?.uid === volume.uid ? now : undefined;
};

/** An answer is about the intent that it was asked for: the same pair may be under another one by the time it comes. */
export const ofIntent =
  (opId: string, decide: Decide): Decide =>
  (volume, at) =>
    volume.intent?.opId === opId ? decide(volume, at) : noChange(volume);

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
