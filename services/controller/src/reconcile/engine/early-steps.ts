/**
 * A step begins beside the commit that stores its new intent: what precedes its call, from the span to the slot, takes a good part of the time in
 * which a near store answers.
 *
 * ES1 The call leaves behind that commit. The step takes its slot, waits until this process knows how the commit ended, and reads the record
 *    only then (U1 of under-intent.ts). ES2 A step begins early only for an intent of this life that names an instance, while the gate is open:
 *    such a step stores nothing and asks nobody before it has its slot. ES3 No step begins early once the commit is answered; it is planned as
 *    ever. ES4 A step ends at once, and frees its slot, when its intent is not known to be stored or this controller takes up nothing any more.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { planSteps, type Step } from "../../domain/steps.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { StoreGate } from "../../ports.ts";
import type { CommitEnd } from "../../records/commit-rounds.ts";

export interface EarlySteps {
  /** `after` is being stored; `over` resolves when that commit has ended. */
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
