import { barLifted } from "../../domain/bar.ts";
import { barWords } from "../../domain/bar-block.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import { checkRef, refuse } from "../volume/validate-volume.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { ClearBarInput, Verb } from "./repair-model.ts";
import { type RepairVerbDeps, runVolumeVerb } from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

/** A person's word in the place of the answer of a gate that never comes back: the overtaken call has ended. What it made is undone. */
export const clearBarCommand =
  (deps: RepairVerbDeps): Verb<ClearBarInput> =>
  async (input, caller) => {
    const { namespace, id, bar: barId, evidence } = input;
    const ref = { namespace, id };
    refuse([
      ...checkRef(ref).map((v) => (v.field === "id" ? { ...v, field: "volume" } : v)),
      ...(barId === "" ? [{ field: "bar", description: "is required: this bar and no other" }] : []),
      ...checkEvidence(evidence),
      ...checkRepair(input),
    ]);
    return await runVolumeVerb<undefined>(deps, {
      verb: "ClearBar",
      ref,
      asked: input,
      caller,
      subject: { namespace, volume: id },
      look: async () => undefined,
      decide(volume, _seen, at) {
        const bar = volume.bars.find(({ opId }) => opId === barId);
        const what = `bar ${barId} of volume ${volumeKey(volume)}`;
        if (bar === undefined)
          throw repairNotApplicable(what, "not there", "it was lifted, or never stood; nothing waits for it", {
            namespace,
            volume: id,
          });
        const change = barLifted(volume, barId, at);
        const { op, via, issuer, node, attachment } = bar;
        if (change.volume === volume)
          throw repairNotApplicable(
            what,
            "needed",
            `its undo has no place in the record before the attachment to node ${node} (${attachment?.nodeId}) is gone: repeat it then`,
            { namespace, volume: id, node },
          );
        const undone = change.volume !== null && change.volume.attachments[node] !== volume.attachments[node];
        return {
          change,
          confirmWith: `the call "${op}" of volume ${volumeKey(volume)}, given to "${via}" by controller ${issuer}, has ended`,
          effects: [
            `the bar goes: ${barWords(volume, bar)}`,
            ...(undone ? [`the volume is detached from node ${node}, where the call may have attached it`] : []),
          ],
          risks: [
            `if it is open at "${via}" after all, its effect comes behind whatever was done since: a volume may be detached under a running workload, or attached twice`,
          ],
          subject: {
            namespace,
            volume: id,
            plugin: volume.plugin,
            externalId: volume.externalId,
            volumeUid: volume.uid,
          },
        };
      },
    });
  };
