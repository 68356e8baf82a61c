import { type Change, noChange } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { Leave } from "../../domain/open-call.ts";
import type { Outcome } from "../../domain/outcome.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { type ValidatedVolume, validateAnswered } from "../../domain/volume/volume-registration.ts";
import { failureOf } from "../owed/under-intent.ts";
import type { StepDeps, StepHandler } from "./step-run.ts";

/** A plugin without a controller half has nobody to ask: the storage is taken at the caller's word. */
const unasked = ({ nodes }: StepDeps, { plugin }: VolumeRecord): Outcome<ValidatedVolume> => {
  const half = nodes
    .list()
    .flatMap(({ record }) => record.plugins)
    .find(({ name }) => name === plugin);
  const value = { confirmed: false, pluginVersion: half?.version ?? "", capacity: 0, accessible: [] };
  return { kind: "done", value: { ...value, publishedNodes: undefined } };
};

const asked = async (deps: StepDeps, volume: VolumeRecord): Promise<Outcome<ValidatedVolume>> => {
  const { plugins, records, slots, signal, validating } = deps;
  const { plugin, externalId } = volume;
  const wanted = async (): Promise<Leave | undefined> => {
    const now = (await records.get(volume))?.volume;
    const still = now?.uid === volume.uid && now.state === "CREATING" && now.intent?.opId === volume.intent?.opId;
    return still ? {} : undefined;
  };
  try {
    return await validating.run(`${plugin}\n${externalId}`, signal, () =>
      slots.run({ plugin, kind: "make" }, signal, () =>
        plugins.validateVolume(volume, { signal, attempt: volume.attempts.count + 1, wanted }),
      ),
    );
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "unknown", failure: failureOf(error) };
  }
};

/** Asks the plugin about storage that is being registered, until it has said something; it changes nothing there. */
export const validateStep: StepHandler<"validate"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, records, gate } = deps;
  const { ready, controllerService } = plugins.facts(volume.plugin);
  // The record may be older than one that the store has lost, and that one may stand for the same storage.
  if (!gate.state(volume.plugin).open || (!ready && controllerService !== "no")) return false;
  const outcome = controllerService === "no" ? unasked(deps, volume) : await asked(deps, volume);
  const decide = (v: VolumeRecord, at: Moment): Change =>
    v.uid === volume.uid ? validateAnswered(v, outcome, at) : noChange(v);
  return (await records.change(volume, decide, { traceId })).changed;
};
