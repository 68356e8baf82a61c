import type { Tri } from "@holdfast/model/tri";
import { checkId } from "../../domain/limits.ts";
import { assertable, detachAsserted, waitingForDetach } from "../../domain/repair/repair-change.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { ControllerPlugins } from "../../ports.ts";
import { checkRef, refuse } from "../volume/validate-volume.ts";
import { type AgentWordDeps, agentEffect, askAgent } from "./agent-word.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { AssertDetachedInput, Verb } from "./repair-model.ts";
import { type RepairVerbDeps, runVolumeVerb } from "./repair-verb.ts";
import { checkEvidence, checkRepair } from "./validate-repair.ts";

export interface AssertDetachedDeps extends RepairVerbDeps, AgentWordDeps {
  readonly plugins: Pick<ControllerPlugins, "attachmentAbsent">;
}

/** Which claims, and which life of the attachment, the proofs were asked for. */
const lifeOf = (volume: VolumeRecord, node: string): string =>
  [volume.uid, volume.attachments[node]?.nodeEpoch, ...waitingForDetach(volume, node).map((c) => c.uid)].join(" ");

const backendEffect = (absent: Tri): string =>
  absent === "yes" ? "the backend does not show the attachment" : "the backend cannot tell whether it is attached";

/** A person's word in the place of the plugin's proof of a detach. Whoever shows the opposite is believed instead. */
export const assertDetachedCommand =
  (deps: AssertDetachedDeps): Verb<AssertDetachedInput> =>
  async (input, caller) => {
    const { namespace, volume: id, node, evidence } = input;
    const ref = { namespace, id };
    refuse([
      ...checkRef(ref, "volume"),
      ...(node.startsWith("driver:") ? [] : checkId("node", node)),
      ...checkEvidence(evidence),
      ...checkRepair(input),
    ]);
    const what = `the attachment of volume ${volumeKey(ref)} to node ${node}`;
    const metadata = { namespace, volume: id, node };

    const backendsWord = async (volume: VolumeRecord): Promise<Tri> => {
      const attachment = volume.attachments[node];
      // What is refused whatever the backend says is no reason to ask it.
      if (attachment === undefined || assertable[attachment.state] !== "apply") return "unknown";
      return await deps.plugins.attachmentAbsent(volume, attachment, { signal: deps.signal, attempt: 1, beside: true });
    };

    return await runVolumeVerb(deps, {
      verb: "AssertDetached",
      ref,
      asked: input,
      caller,
      subject: { namespace, volume: id, node },

      async look(volume) {
        const word = await askAgent(deps, node, volume);
        if (word.kind === "holds")
          throw repairNotApplicable(
            what,
            "held by its agent",
            `node ${node} answers and still has the volume mounted; release its claims, and the detach follows`,
            metadata,
          );
        const absent = await backendsWord(volume);
        if (absent === "no")
          throw repairNotApplicable(
            what,
            "shown by the backend",
            "it is attached there; the detach is repeated until the backend no longer shows it",
            metadata,
          );
        return { word, absent, life: lifeOf(volume, node) };
      },

      decide(volume, { word, absent, life }, at) {
        const attachment = volume.attachments[node];
        const cell = assertable[attachment?.state ?? "none"];
        if (cell !== "apply")
          throw repairNotApplicable(what, attachment?.state ?? "not on record", cell.instead, metadata);
        if (lifeOf(volume, node) !== life)
          throw repairNotApplicable(
            what,
            "another one",
            "it changed while the proofs were asked for; look again",
            metadata,
          );
        const ending = waitingForDetach(volume, node);
        return {
          change: detachAsserted(volume, node, at),
          confirmWith: `volume ${volumeKey(ref)} (${volume.externalId}) is not attached to node ${node} (${attachment?.nodeId ?? ""})`,
          effects: [
            `${what} is taken off the record; ControllerUnpublishVolume is not repeated any more`,
            ...ending.map((c) => `claim ${c.uid} of workload ${c.workload} ends`),
            agentEffect(word, node),
            backendEffect(absent),
          ],
          risks: [
            "if it is attached after all, the attachment is leaked and may keep the volume from every other node",
            `a detach that the plugin has not finished may still hit the next attachment of the volume to node ${node}`,
          ],
          subject: {
            namespace,
            volume: id,
            volumeUid: volume.uid,
            plugin: volume.plugin,
            externalId: volume.externalId,
            node,
          },
        };
      },
    });
  };
