import { withoutCallBlock, withoutCallBlocks } from "../../domain/call-block.ts";
import type { Change } from "../../domain/change.ts";
import { type CallNews, type CallSite, takenOver } from "../../domain/open-call.ts";
import type { CutRecord, CutRef } from "../../domain/snapshot/snapshot.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Caller } from "../model.ts";
import { checkRef, refuse } from "../volume/validate-volume.ts";
import { type CutVerbDeps, runCutVerb } from "./cut-verb.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { RepairOutcome, TakeOverInput, Verb } from "./repair-model.ts";
import { type Judgement, runVolumeVerb } from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

const verb = "TakeOver";

type Called = (VolumeRecord | CutRecord) & { readonly intent?: CallSite & { readonly op: string } };

/** Throws when no call of the record may be open, or another one than was looked at. */
/** A person says that this very call has ended. */
const word = (opId: string | undefined): CallNews | undefined =>
  opId === undefined ? undefined : { opId, end: "ended" };

const judge = (record: Called, of: TakeOverInput["of"], seen: string | undefined): Judgement => {
  const what = `the call of ${of} ${volumeKey(record)}`;
  const { intent, plugin, externalId } = record;
  const metadata = { namespace: record.namespace, [of]: record.id };
  if (intent?.via === undefined)
    throw repairNotApplicable(what, "not open", "no instance has a call of it; it goes on by itself", metadata);
  if (intent.opId !== seen)
    throw repairNotApplicable(what, "another one", "it changed while it was looked at; look again", metadata);
  const { op, via, issuer } = intent;
  return {
    confirmWith: `the call "${op}" of ${of} ${volumeKey(record)}, given to "${via}" by controller ${issuer}, has ended`,
    effects: [
      `controller ${issuer} does not make the call "${op}" any more, and its answer is believed no more`,
      `the call may be given to any instance of plugin ${plugin}; what it did stays in doubt, and is asked for or undone`,
    ],
    risks: [
      `if it is open at "${via}" after all, its effect comes behind whatever was done since: a volume may be detached under a running workload, or attached twice`,
    ],
    subject: { namespace: record.namespace, volume: record.id, plugin, externalId, volumeUid: record.uid },
  };
};

const ofVolume = (deps: CutVerbDeps, input: TakeOverInput, caller: Caller): Promise<RepairOutcome> => {
  const ref = { namespace: input.namespace, id: input.id };
  let seen: string | undefined;
  return runVolumeVerb<undefined>(deps, {
    verb,
    ref,
    asked: input,
    caller,
    subject: { namespace: ref.namespace, volume: ref.id },
    async look({ intent }) {
      seen = intent?.opId;
      return undefined;
    },
    decide: (volume, _seen, at) => {
      const change: Change = { volume: withoutCallBlocks(takenOver(volume, at)), ended: [], notes: [] };
      return { ...judge(volume, "volume", seen), change };
    },
    settles: () => word(seen),
  });
};

const ofCut = (deps: CutVerbDeps, asked: TakeOverInput, ref: CutRef, caller: Caller): Promise<RepairOutcome> =>
  runCutVerb(deps, { verb, ref, asked, caller }, ({ intent }) => ({
    judge: (record) => judge(record, ref.kind, intent?.opId),
    change: (record, at) => withoutCallBlock(takenOver(record, at)),
    settles: word(intent?.opId),
  }));

/** A person's word in the place of the proof that a call has ended. What the call did stays in doubt. */
export const takeOverCommand =
  (deps: CutVerbDeps): Verb<TakeOverInput> =>
  async (input, caller) => {
    const { namespace, id, of, evidence } = input;
    refuse([
      ...checkRef({ namespace, id }).map((v) => (v.field === "id" ? { ...v, field: of } : v)),
      ...checkEvidence(evidence),
      ...checkRepair(input),
    ]);
    return of === "volume"
      ? await ofVolume(deps, input, caller)
      : await ofCut(deps, input, { kind: of, namespace, id }, caller);
  };
