/**
 * The step of a new intent begins beside the commit that stores it: what precedes a call, from its span to its slot, takes a good part of
 * what a store that is near needs for an answer.
 *
 * ES1 The call leaves behind that commit: holding its slot the step waits until this process knows what became of it, and looks at the record only
 *    then, as U1 of under-intent.ts wants it. ES2 Only an intent of this life for an instance, while plugins may be called: before the slot of
 *    such a one no step stores, asks or sends anything. ES3 Of a commit that is answered before it has left the step is planned as ever.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { planSteps, type Step } from "../../domain/steps.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { StoreGate } from "../../ports.ts";

export interface EarlySteps {
  /** `after` is being stored; `over` resolves once it is, or is known not to be. */
  storing(before: VolumeRecord, after: VolumeRecord, over: Promise<unknown>): void;
  /** Resolves once nothing of the volume for which a step may have begun early is being stored; undefined = nothing is. */
  stored(volume: VolumeRecord): Promise<unknown> | undefined;
}

export interface EarlyStepsDeps {
  readonly issuer: string;
  readonly gate: Pick<StoreGate, "state">;
  readonly clock: Pick<Clock, "now">;
  /** What was given to a connection in this turn of the event loop has left. */
  readonly sent: () => Promise<void>;
  readonly begin: (volume: VolumeRecord, step: Step, over: Promise<unknown>) => void;
}

const callsForIntent = ({ do: what }: Step): boolean => what === "attach" || what === "detach";

export const createEarlySteps = ({ issuer, gate, clock, sent, begin }: EarlyStepsDeps): EarlySteps => {
  const commits = new Map<string, Promise<unknown>>();
  /** ES2 */
  const isFresh = ({ intent }: VolumeRecord, before: VolumeRecord): boolean =>
    intent?.via !== undefined && intent.issuer === issuer && intent.opId !== before.intent?.opId;

  return {
    storing(before, after, over) {
      if (!isFresh(after, before) || !gate.state(after.plugin).open) return;
      const key = volumeKey(after);
      commits.set(key, over);
      void over.then(() => commits.delete(key));
      void sent().then(() => {
        if (commits.get(key) !== over) return; // ES3
        const step = planSteps(after, clock.now()).ready.find(callsForIntent);
        if (step !== undefined) begin(after, step, over);
      });
    },
    stored: (volume) => commits.get(volumeKey(volume)),
  };
};
