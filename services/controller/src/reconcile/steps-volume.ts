import { blockedBy } from "../domain/blocked.ts";
import { type Change, noChange } from "../domain/change.ts";
import { doubted } from "../domain/doubt.ts";
import { earlyClaimsEnded, hasNoRoom, roomless } from "../domain/early-claims.ts";
import type { Moment } from "../domain/moment.ts";
import type { Failure } from "../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume.ts";
import {
  type CreatedVolume,
  created,
  createdTwice,
  createRefused,
  createUnknown,
  deleted,
  deleteUnknown,
} from "../domain/volume-change.ts";
import type { Decide } from "../records/volume-decisions.ts";
import { changeWithSets } from "./set-failure.ts";
import { currentOf, leaving, type StepDeps, type StepHandler, settle, stored } from "./step-run.ts";

const blocking = (step: "create" | "delete", volume: VolumeRecord, failure: Failure, at: Moment) =>
  failure.advice === "block" || failure.advice === "check-absence"
    ? blockedBy(step, failure, volume, volume.blocked, at.now)
    : undefined;

/** A refusal that only a change elsewhere can lift keeps a wanted volume waiting for it; an unwanted one needs no volume. */
const createFailed = (volume: VolumeRecord, refused: boolean, failure: Failure, at: Moment): Change =>
  hasNoRoom(volume, failure)
    ? roomless(volume, failure, at)
    : refused && (failure.advice !== "block" || volume.goal === "absent")
      ? createRefused(volume, failure, at)
      : createUnknown(volume, failure, blocking("create", volume, failure, at), at);

/** What a plugin answered is the volume's own only as long as no other record stands for it. */
const keepOwn = async (
  { records, log }: StepDeps,
  volume: VolumeRecord,
  { externalId }: CreatedVolume,
  decide: Decide,
  traceId: string | undefined,
): Promise<boolean> => {
  const storage = { plugin: volume.plugin, externalId };
  const result = await records.changeOwning(storage, volume, decide, { traceId });
  if (result !== undefined) return result.changed;
  const owner = await records.owner(storage);
  // It has gone meanwhile: the same call again answers the same.
  if (owner === undefined || owner.volume.uid === volume.uid) return true;
  log.error("a plugin answered CreateVolume with the storage of another volume", {
    volume: volumeKey(volume),
    owner: volumeKey(owner.volume),
    plugin: volume.plugin,
    external_id: externalId,
  });
  const twice = await records.change(
    volume,
    (v, at) => (v.uid === volume.uid ? createdTwice(v, externalId, volumeKey(owner.volume), at) : noChange(v)),
    { traceId },
  );
  return twice.changed;
};

/** CreateVolume under the stored name: a repeat finds what an attempt without answer may have made. */
export const createStep: StepHandler<"create"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, records } = deps;
  if (!plugins.facts(volume.plugin).ready) return false;
  let unstored = false;
  const request = {
    plugin: volume.plugin,
    kind: "make",
    method: "CreateVolume",
    repeat: volume.attempts.count > 0,
  } as const;
  const outcome = await slots.run(request, signal, async () => {
    const now = await currentOf(deps, volume);
    // Forgotten, or given other storage, while the call waited for its turn: what it would make is nobody's.
    if (now?.state !== "CREATING" || now.intent?.opId !== volume.intent?.opId) return undefined;
    unstored = leaving(deps, now);
    return settle(deps, "create", () => plugins.createVolume(now, { signal, attempt: now.attempts.count + 1 }));
  });
  if (outcome === undefined) return false;
  const decide: Decide = (v, at) => {
    if (v.uid !== volume.uid) return noChange(v);
    return outcome.kind === "done"
      ? created(v, outcome.value, at)
      : createFailed(unstored ? doubted(v, at) : v, outcome.kind === "refused", outcome.failure, at);
  };
  const changed =
    outcome.kind === "done"
      ? await keepOwn(deps, volume, outcome.value, decide, traceId)
      : volume.binding === undefined
        ? (await records.change(volume, decide, { traceId })).changed
        : await changeWithSets(records, volume, undefined, (v, at) => earlyClaimsEnded(decide(v, at), at), { traceId });
  stored(deps, volume);
  return changed;
};

/**
 * DeleteVolume until it is known to be gone. Not while the store is unvetted: the record may be older than a claim that the
 * store has lost, and a deletion cannot be taken back.
 */
export const deleteStep: StepHandler<"delete"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, records, gate } = deps;
  if (!gate.state().open || !plugins.facts(volume.plugin).ready) return false;
  let unstored = false;
  const repeat = volume.attempts.count > 0;
  const request = { plugin: volume.plugin, kind: "remove", method: "DeleteVolume", repeat } as const;
  const outcome = await slots.run(request, signal, async () => {
    const now = await currentOf(deps, volume);
    // Forgotten while the call waited for its turn: by now the storage may be somebody else's.
    if (now?.state !== "DELETING" || !gate.state().open) return undefined;
    unstored = leaving(deps, now);
    return settle(deps, "delete", () => plugins.deleteVolume(now, { signal, attempt: now.attempts.count + 1 }));
  });
  if (outcome === undefined) return false;
  const result = await records.change(
    volume,
    (v, at) => {
      if (v.uid !== volume.uid) return noChange(v);
      if (outcome.kind === "done") return deleted(unstored ? doubted(v, at) : v, at);
      const refused: Failure = outcome.kind === "refused" ? { ...outcome.failure, advice: "block" } : outcome.failure;
      return deleteUnknown(v, refused, blocking("delete", v, refused, at), at);
    },
    { traceId },
  );
  stored(deps, volume);
  return result.changed;
};
