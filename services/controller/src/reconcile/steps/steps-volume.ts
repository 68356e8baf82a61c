import { blockedBy } from "../../domain/blocked.ts";
import { type Change, noChange } from "../../domain/change.ts";
import { earlyClaimsEnded, hasNoRoom, roomless } from "../../domain/claim/early-claims.ts";
import { doubted, isDoubtful } from "../../domain/doubt.ts";
import type { Moment } from "../../domain/moment.ts";
import { mayBeOpen } from "../../domain/open-call.ts";
import { type Failure, neverSent } from "../../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import {
  type CreatedVolume,
  created,
  createdTwice,
  createRefused,
  createUnknown,
  deleted,
  deleteUnknown,
  homeChosen,
} from "../../domain/volume/volume-change.ts";
import type { ChangeOptions, Decide } from "../../records/volume/volume-decisions.ts";
import { changeWithSets } from "./set-failure.ts";
import { answered, callUnder, type StepDeps, type StepHandler, stored } from "./step-run.ts";

const blocking = (step: "create" | "delete", volume: VolumeRecord, failure: Failure, at: Moment) =>
  failure.advice === "block" || failure.advice === "check-absence"
    ? blockedBy(step, failure, volume, volume.blocked, at.now)
    : undefined;

/** A refusal that only a change elsewhere can lift keeps a wanted volume waiting for it; an unwanted one needs no volume. */
const createFailed = (volume: VolumeRecord, refused: boolean, failure: Failure, at: Moment): Change =>
  mayBeOpen(volume)
    ? createUnknown(volume, failure, blocking("create", volume, failure, at), at)
    : hasNoRoom(volume, failure)
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
  options: ChangeOptions,
): Promise<boolean> => {
  const storage = { plugin: volume.plugin, externalId };
  const result = await records.changeOwning(storage, volume, decide, options);
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
    answered({ opId: options.settles?.opId ?? "", end: "ended" }, (v, at) =>
      createdTwice(v, externalId, volumeKey(owner.volume), at),
    ),
    options,
  );
  return twice.changed;
};

/** CreateVolume under the stored name: a repeat finds what an attempt without answer may have made. */
export const createStep: StepHandler<"create"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, slots, signal, records } = deps;
  if (!plugins.facts(volume.plugin).ready) return false;
  const home = plugins.homeFor(volume);
  // Durable before the call, as the intent is (I4): a repeat finds what was made only where it was made.
  if (home !== undefined) {
    const chosen = await records.change(volume, (v, at) =>
      v.uid === volume.uid ? homeChosen(v, home, at) : noChange(v),
    );
    return chosen.changed;
  }
  const request = {
    plugin: volume.plugin,
    kind: "make",
    method: "CreateVolume",
    repeat: volume.attempts.count > 0,
  } as const;
  // Forgotten, or given other storage, while the call waited for its turn: what it would make is nobody's.
  const stillRight = (now: VolumeRecord): boolean => now.state === "CREATING" && now.intent?.op === "create";
  const attempt = await slots.run(request, signal, () =>
    callUnder(deps, "create", volume, stillRight, (now, context) =>
      plugins.createVolume(now, { ...context, attempt: now.attempts.count + 1 }),
    ),
  );
  if (attempt === undefined) return false;
  const { outcome, unstored } = attempt;
  const decide = answered(attempt, (v, at) => {
    // Nobody wants it any more, and no call for it has ever left: nothing has to be made to be deleted.
    if (outcome.kind === "unknown" && neverSent(outcome.failure) && v.goal === "absent" && v.intent !== undefined)
      if (!mayBeOpen(v) && !unstored && !isDoubtful(v.intent, at)) return createRefused(v, outcome.failure, at);
    return outcome.kind === "done"
      ? created(v, outcome.value, at)
      : createFailed(unstored ? doubted(v, at) : v, outcome.kind === "refused", outcome.failure, at);
  });
  const options = { traceId, settles: attempt };
  const changed =
    outcome.kind === "done"
      ? await keepOwn(deps, volume, outcome.value, decide, options)
      : volume.binding === undefined
        ? (await records.change(volume, decide, options)).changed
        : await changeWithSets(records, volume, undefined, (v, at) => earlyClaimsEnded(decide(v, at), at), options);
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
  const repeat = volume.attempts.count > 0;
  const request = { plugin: volume.plugin, kind: "remove", method: "DeleteVolume", repeat } as const;
  // Forgotten while the call waited for its turn: by now the storage may be somebody else's.
  const stillRight = (now: VolumeRecord): boolean =>
    now.state === "DELETING" && now.intent?.op === "delete" && gate.state().open;
  const attempt = await slots.run(request, signal, () =>
    callUnder(deps, "delete", volume, stillRight, (now, context) =>
      plugins.deleteVolume(now, { ...context, attempt: now.attempts.count + 1 }),
    ),
  );
  if (attempt === undefined) return false;
  const { outcome, unstored } = attempt;
  const result = await records.change(
    volume,
    answered(attempt, (v, at) => {
      if (outcome.kind === "done") return deleted(unstored ? doubted(v, at) : v, at);
      const refused: Failure = outcome.kind === "refused" ? { ...outcome.failure, advice: "block" } : outcome.failure;
      return deleteUnknown(v, refused, blocking("delete", v, refused, at), at);
    }),
    { traceId, settles: attempt },
  );
  stored(deps, volume);
  return result.changed;
};
