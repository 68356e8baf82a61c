import { type Change, noChange } from "../../domain/change.ts";
import { ephemeralEnded } from "../../domain/claim/ephemeral.ts";
import { owes } from "../../domain/obligation/obligation.ts";
import { restoreEnded } from "../../domain/volume/group-restore.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import {
  type CreatedVolume,
  createAnswered,
  createdTwice,
  deleteAnswered,
  deletionEnded,
  homeChosen,
} from "../../domain/volume/volume-change.ts";
import type { ChangeOptions } from "../../records/volume/change-options.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import { volumePins } from "../../records/volume-pins.ts";
import { runOwed } from "../owed/run-owed.ts";
import { changeWithSets } from "./set-failure.ts";
import { owedVolumes, type StepHandler } from "./step-run.ts";

/** CreateVolume under the stored name: a repeat finds what an attempt without answer may have made. */
export const createStep: StepHandler<"create"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, records, log } = deps;
  const { plugin } = volume;
  if (!plugins.facts(plugin).ready) return false;
  const home = plugins.homeFor(volume);
  // Durable before the call, as the intent is (I4): a repeat finds what was made only where it was made.
  if (home !== undefined) {
    const chosen = await records.change(volume, (v, at) =>
      v.uid === volume.uid ? homeChosen(v, home, at) : noChange(v),
    );
    return chosen.changed;
  }
  return await runOwed<VolumeRecord, Change, CreatedVolume>(owedVolumes(deps), volume, traceId, {
    point: "create",
    request: { kind: "make", method: "CreateVolume" },
    attemptsOf: ({ attempts }) => attempts,
    // Forgotten, or given other storage, while the call waited for its turn: what it would make is nobody's.
    stillRight: (now) => owes(now, "create"),
    call: (now, context) => plugins.createVolume(now, context),
    answered: createAnswered,
    async store(outcome, decide, options) {
      if (outcome.kind !== "done") return await changeWithSets(records, volume, undefined, decide, options);
      const { externalId } = outcome.value;
      return await records.changeOwning({ plugin, externalId }, volume, decide, options);
    },
    async crowded({ externalId }) {
      const owner = await records.owner({ plugin, externalId });
      // It has gone meanwhile: the same call again answers the same.
      if (owner === undefined || owner.volume.uid === volume.uid) return undefined;
      const key = volumeKey(owner.volume);
      log.error("a plugin answered CreateVolume with the storage of another volume", {
        volume: volumeKey(volume),
        owner: key,
        plugin,
        external_id: externalId,
      });
      // Whoever may see this volume may not see that one.
      const same = owner.volume.namespace === volume.namespace;
      const words = same ? `volume ${key}` : "a volume of another namespace, which the log of this controller names";
      return (v, at) => createdTwice(v, externalId, words, at);
    },
  });
};

/**
 * Its claims are over. What is being made from it holds on to it until that has ended. Not while the store is unvetted: the record may be
 * older than a claim that the store has lost.
 */
export const endEphemeralStep: StepHandler<"end ephemeral"> = async (deps, _step, { volume, traceId }) => {
  const { records, gate } = deps;
  if (!gate.state(volume.plugin).open) return false;
  const decide: Decide = (v, at) => (v.uid === volume.uid ? ephemeralEnded(v, at) : noChange(v));
  return (await records.change(volume, decide, { traceId, alone: volumePins, requiresVetted: true })).changed;
};

/** One of a set has failed for good. Crowded while something is cut or made from one of the others: it is looked at again then. */
export const endRestoreStep: StepHandler<"end restore"> = async (deps, _step, { volume, traceId }) => {
  const { records, gate } = deps;
  if (!gate.state(volume.plugin).open) return false;
  const { namespace, id, restore } = volume;
  const refs = (restore?.members ?? []).map((member) => ({ namespace, id: member.id }));
  const results = await records.changeMany(refs, (volumes, at) => restoreEnded(volumes, id, at), {
    traceId,
    alone: volumePins,
    requiresVetted: true,
  });
  return results.some(({ changed }) => changed);
};

/**
 * DeleteVolume until it is known to be gone. Not while the store is unvetted: the record may be older than a claim that the
 * store has lost, and a deletion cannot be taken back.
 */
export const deleteStep: StepHandler<"delete"> = async (deps, _step, { volume, traceId }) => {
  const { plugins, records, gate } = deps;
  // Claims of one that failed may wait for it.
  const store = (decide: Decide, options: ChangeOptions) => changeWithSets(records, volume, undefined, decide, options);
  if (volume.intent === undefined) return (await store(deletionEnded, { traceId })).changed;
  if (!gate.state(volume.plugin).open || !plugins.facts(volume.plugin).ready) return false;
  return await runOwed(owedVolumes(deps), volume, traceId, {
    point: "delete",
    request: { kind: "remove", method: "DeleteVolume" },
    attemptsOf: ({ attempts }) => attempts,
    // Forgotten while the call waited for its turn: by now the storage may be somebody else's.
    stillRight: (now) => owes(now, "delete") && gate.state(volume.plugin).open,
    call: (now, context) => plugins.deleteVolume(now, context),
    answered: deleteAnswered,
    store: (_outcome, decide, options) => store(decide, options),
  });
};
