import { lacksItsStorage, storageAdopted } from "../../domain/repair/repair-adopt.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { CommandDeps } from "../command-deps.ts";
import { storageTaken, volumeExists } from "../errors.ts";
import type { Caller, RegisterVolumeInput } from "../model.ts";
import { registerVolumeCommand } from "../volume/register-volume.ts";
import { refuse, validateRegisterVolume } from "../volume/validate-volume.ts";
import type { AdoptVolumeInput, RepairOutcome, Verb } from "./repair-model.ts";
import {
  auditEntry,
  doneBefore,
  type Judgement,
  type RepairVerbDeps,
  requireConfirmed,
  runVolumeVerb,
  wouldBe,
} from "./repair-verb.ts";
import { checkRepair } from "./validate-repair.ts";

const registration = (input: AdoptVolumeInput): RegisterVolumeInput => ({
  namespace: input.namespace,
  id: input.id,
  plugin: input.plugin,
  externalId: input.externalId,
  capacity: { required: 0, limit: 0 },
  capabilities: input.capabilities,
  context: input.context,
  parameters: {},
  mutableParameters: {},
  accessible: [],
  secretRefs: {},
  labels: {},
  // It was there before: whoever wants it destroyed says so on its own.
  policy: { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  requestId: input.requestId,
});

const risks = [
  "if the storage is another volume's, both write to it",
  "a DeleteVolume that an older record left under way may still destroy it",
  "a node that the backend still has it attached to may write to it",
];

/** A record for storage that a scan found, also where RegisterVolume waits for a delete that can no longer come. */
export const adoptVolumeCommand = (deps: RepairVerbDeps & CommandDeps): Verb<AdoptVolumeInput> => {
  const { records, audit, clock } = deps;

  const judge = (input: AdoptVolumeInput, effect: string): Judgement => {
    const { namespace, id, plugin, externalId } = input;
    return {
      confirmWith: `storage ${externalId} of plugin ${plugin} is volume ${volumeKey(input)}, and no other's`,
      effects: [effect, "the plugin is asked whether it can be used as said; nothing is formatted or deleted"],
      risks,
      subject: { namespace, volume: id, plugin, externalId },
    };
  };

  const asNew = async (input: AdoptVolumeInput, caller: Caller): Promise<RepairOutcome> => {
    const owner = (await records.owner(input))?.volume;
    if (owner !== undefined) throw storageTaken(input, input, owner);
    const judgement = judge(input, `volume ${volumeKey(input)} is registered for storage ${input.externalId}`);
    if (input.dryRun) return wouldBe(judgement);
    requireConfirmed(judgement, input);
    const id = audit.newId(clock.now());
    const entry = auditEntry("AdoptVolume", input, caller, judgement);
    await registerVolumeCommand(deps, true, { id, entry })(registration(input), caller);
    const raced = await doneBefore(audit, "AdoptVolume", input.requestId, judgement.subject);
    if (raced !== undefined) return raced;
    const { effects } = judgement;
    // Somebody may have registered the very same meanwhile: then nothing was done for this word.
    const stored = (await audit.get(id)) !== undefined;
    return { dryRun: false, effects: stored ? effects : [], risks, auditId: stored ? id : "", confirmWith: "" };
  };

  const asFound = async (input: AdoptVolumeInput, caller: Caller): Promise<RepairOutcome> => {
    const { namespace, id, plugin, externalId } = input;
    return await runVolumeVerb(deps, {
      verb: "AdoptVolume",
      ref: { namespace, id },
      asked: input,
      caller,
      subject: { namespace, volume: id, plugin, externalId },
      look: async () => undefined,
      decide(volume, _seen, at) {
        if (!lacksItsStorage(volume)) throw volumeExists(volume, "external_id");
        if (volume.plugin !== plugin) throw volumeExists(volume, "plugin");
        const judgement = judge(input, `volume ${volumeKey(input)}, whose creation failed, gets storage ${externalId}`);
        return { ...judgement, change: storageAdopted(volume, input, at) };
      },
      async store(act) {
        const result = await records.changeOwning(input, input, act);
        if (result.crowded) throw storageTaken(input, input, (await records.owner(input))?.volume);
        return result;
      },
    });
  };

  return async (input, caller) => {
    const { namespace, id: volume, plugin, externalId } = input;
    refuse(checkRepair(input));
    validateRegisterVolume(registration(input), deps.secrets.granted, "volume");
    const subject = { namespace, volume, plugin, externalId };
    const before = input.dryRun ? undefined : await doneBefore(audit, "AdoptVolume", input.requestId, subject);
    if (before !== undefined) return before;
    return (await records.get(input)) === undefined ? await asNew(input, caller) : await asFound(input, caller);
  };
};
