/**
 * The step of a new intent begins beside the commit that stores it: what precedes a call, from its span to its slot, takes a good part of
 * what a store that is near needs for an answer.
 *
 * ES1 The call leaves behind that commit: holding its slot the step waits until this process knows what became of it, and looks at the record only
 *    then, as U1 of under-intent.ts wants it. ES2 Only an intent of this life for an instance, while plugins may be called: before the slot of
 *    such a one no step stores, asks or sends anything. ES3 Of a commit that is answered before it has left the step is planned as ever.
 * ES4 Of an intent that is not known to be stored the step ends at once, and its slot is free; so it does when this controller ends.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { planSteps, type Step } from "../../domain/steps.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { StoreGate } from "../../ports.ts";
import type { CommitEnd } from "../../records/commit-rounds.ts";

export interface EarlySteps {
  /** `after` is being stored; `over` resolves once it is, or is known not to be. */
  storing(before: VolumeRecord, after: VolumeRecord, over: Promise<CommitEnd>): void;
}

export interface EarlyStepsDeps {
  readonly issuer: string;
  readonly gate: Pick<StoreGate, "state">;
  readonly clock: Pick<Clock, "now">;
  /** What was given to a connection in this turn of the event loop has left. */
  readonly sent: () => Promise<void>;
  readonly begin: (volume: VolumeRecord, step: Step, over: Promise<CommitEnd>) => void;
}

const callsForIntent = ({ do: what }: Step): boolean => what === "attach" || what === "detach";

export const createEarlySteps = ({ issuer, gate, clock, sent, begin }: EarlyStepsDeps): EarlySteps => {
  /** ES2 */
  const isFresh = ({ intent }: VolumeRecord, before: VolumeRecord): boolean =>
    intent?.via !== undefined && intent.issuer === issuer && intent.opId !== before.intent?.opId;

  const beginOnceSent = async (after: VolumeRecord, over: Promise<CommitEnd>): Promise<void> => {
    let answered = false;
    void over.then(() => {
      answered = true;
    });
    await sent();
    if (answered || !gate.state(after.plugin).open) return; // ES2, ES3
    const step = planSteps(after, clock.now()).ready.find(callsForIntent);
    if (step !== undefined) begin(after, step, over);
  };

  return {
    storing(before, after, over) {
      // What cannot begin early is planned as ever.
      if (isFresh(after, before)) beginOnceSent(after, over).catch(() => undefined);
    },
  };
};
