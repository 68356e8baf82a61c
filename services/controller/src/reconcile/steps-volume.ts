import { blockedBy } from "../domain/blocked.ts";
import type { Change } from "../domain/change.ts";
import { doubted } from "../domain/doubt.ts";
import type { Moment } from "../domain/moment.ts";
import type { Failure } from "../domain/outcome.ts";
import type { VolumeRecord } from "../domain/volume.ts";
import { created, createRefused, createUnknown, deleted, deleteUnknown } from "../domain/volume-change.ts";
import { leaving, type StepHandler, settle, stored } from "./step-run.ts";

const blocking = (step: "create" | "delete", volume: VolumeRecord, failure: Failure, at: Moment) =>
  failure.advice === "block" || failure.advice === "check-absence"
    ? blockedBy(step, failure, volume, volume.blocked, at.now)
    : undefined;

/** A refusal that only a change elsewhere can lift keeps a wanted volume waiting for it; an unwanted one needs no volume. */
const createFailed = (volume: VolumeRecord, refused: boolean, failure: Failure, at: Moment): Change =>
  refused && (failure.advice !== "block" || volume.goal === "absent")
    ? createRefused(volume, failure, at)
    : createUnknown(volume, failure, blocking("create", volume, failure, at), at);

/** CreateVolume under the stored name: a repeat finds what an attempt without answer may have made. */
export const createStep: StepHandler<"create"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, records } = deps;
  if (!plugins.facts(volume.plugin).ready) return false;
  let unstored = false;
  const outcome = await slots.run({ plugin: volume.plugin, kind: "make" }, signal, () => {
    unstored = leaving(deps, volume);
    return settle(deps, "create", () => plugins.createVolume(volume, { signal, attempt: volume.attempts.count + 1 }));
  });
  const result = await records.change(
    volume,
    (v, at) => {
      if (v.uid !== volume.uid) return { volume: v, ended: [], notes: [] };
      return outcome.kind === "done"
        ? created(v, outcome.value, at)
        : createFailed(unstored ? doubted(v, at) : v, outcome.kind === "refused", outcome.failure, at);
    },
    { traceId },
  );
  stored(deps, volume);
  return result.changed;
};

/**
 * DeleteVolume until it is known to be gone. Not while the store is unvetted: the record may be older than a claim that the
 * store has lost, and a deletion cannot be taken back.
 */
export const deleteStep: StepHandler<"delete"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, records, gate } = deps;
  if (!gate.state().open || !plugins.facts(volume.plugin).ready) return false;
  const outcome = await slots.run({ plugin: volume.plugin, kind: "remove" }, signal, () =>
    settle(deps, "delete", () => plugins.deleteVolume(volume, { signal, attempt: volume.attempts.count + 1 })),
  );
  const result = await records.change(
    volume,
    (v, at) => {
      if (v.uid !== volume.uid) return { volume: v, ended: [], notes: [] };
      if (outcome.kind === "done") return deleted(v);
      const refused: Failure = outcome.kind === "refused" ? { ...outcome.failure, advice: "block" } : outcome.failure;
      return deleteUnknown(v, refused, blocking("delete", v, refused, at), at);
    },
    { traceId },
  );
  return result.changed;
};
