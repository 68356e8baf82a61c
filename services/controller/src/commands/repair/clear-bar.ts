import { barLifted } from "../../domain/bar.ts";
import { barWords } from "../../domain/bar-block.ts";
import type { CallBar } from "../../domain/open-call.ts";
import type { CutRecord, CutRef } from "../../domain/snapshot/snapshot.ts";
import { cutBarLifted } from "../../domain/snapshot/snapshot-bar.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Caller } from "../model.ts";
import { checkRef, refuse } from "../volume/validate-volume.ts";
import { type CutVerbDeps, runCutVerb } from "./cut-verb.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { ClearBarInput, RepairOutcome, Verb } from "./repair-model.ts";
import { type Judgement, runVolumeVerb } from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

const verb = "ClearBar";

const barOf = <B extends CallBar>(
  record: Pick<CutRecord | VolumeRecord, "namespace" | "id"> & { readonly bars: readonly B[] },
  { of, bar: id }: ClearBarInput,
): B => {
  const bar = record.bars.find(({ opId }) => opId === id);
  if (bar !== undefined) return bar;
  throw repairNotApplicable(
    `bar ${id} of ${of} ${volumeKey(record)}`,
    "not there",
    "it was lifted, or never stood; nothing waits for it",
    { namespace: record.namespace, [of]: record.id },
  );
};

const harm = {
  volume: "a volume may be detached under a running workload, or attached twice",
  snapshot: "a snapshot may be left at the backend, or one that was made anew may be deleted",
  group: "a group may be left at the backend, or one that was made anew may be deleted",
} as const;

const judgement = (
  record: VolumeRecord | CutRecord,
  bar: CallBar,
  { of }: ClearBarInput,
  undo: readonly string[],
): Judgement => {
  const { namespace, id, plugin, externalId, uid } = record;
  return {
    confirmWith: `the call "${bar.op}" of ${of} ${volumeKey(record)}, given to "${bar.via}" by controller ${bar.issuer}, has ended`,
    effects: [`the bar goes: ${barWords(record, bar)}`, ...undo],
    risks: [`if it is open at "${bar.via}" after all, its effect comes behind whatever was done since: ${harm[of]}`],
    subject: { namespace, volume: id, plugin, externalId, volumeUid: uid },
  };
};

const ofVolume = (deps: CutVerbDeps, asked: ClearBarInput, caller: Caller): Promise<RepairOutcome> => {
  const { namespace, id, bar: barId } = asked;
  const subject = { namespace, volume: id };
  return runVolumeVerb<undefined>(deps, {
    verb,
    ref: { namespace, id },
    asked,
    caller,
    subject,
    look: async () => undefined,
    decide(volume, _seen, at) {
      const bar = barOf(volume, asked);
      const change = barLifted(volume, barId, at);
      const { node, attachment } = bar;
      if (change.volume === volume)
        throw repairNotApplicable(
          `bar ${barId} of volume ${volumeKey(volume)}`,
          "needed",
          `its undo has no place in the record before the attachment to node ${node} (${attachment?.nodeId}) is gone: repeat it then`,
          { ...subject, node },
        );
      const undone = change.volume !== null && change.volume.attachments[node] !== volume.attachments[node];
      const undo = undone ? [`the volume is detached from node ${node}, where the call may have attached it`] : [];
      return { change, ...judgement(volume, bar, asked, undo) };
    },
  });
};

const ofCut = (deps: CutVerbDeps, asked: ClearBarInput, ref: CutRef, caller: Caller): Promise<RepairOutcome> =>
  runCutVerb(deps, { verb, ref, asked, caller }, () => ({
    judge(record) {
      const bar = barOf<CallBar>(record, asked);
      const owed = bar.op === "create" && record.state === "DELETING";
      const undo = owed ? [`the ${ref.kind} is deleted, also if the call has made it anew`] : [];
      return judgement(record, bar, asked, undo);
    },
    change: (record, at) => cutBarLifted(record, asked.bar, at),
  }));

/** A person's word in the place of the answer of a gate that never comes back: the overtaken call has ended. What it made is undone. */
export const clearBarCommand =
  (deps: CutVerbDeps): Verb<ClearBarInput> =>
  async (input, caller) => {
    const { namespace, id, of, bar, evidence } = input;
    refuse([
      ...checkRef({ namespace, id }, of),
      ...(bar === "" ? [{ field: "bar", description: "is required: this bar and no other" }] : []),
      ...checkEvidence(evidence),
      ...checkRepair(input),
    ]);
    return of === "volume"
      ? await ofVolume(deps, input, caller)
      : await ofCut(deps, input, { kind: of, namespace, id }, caller);
  };
