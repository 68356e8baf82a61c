import { orphanDetachWanted } from "../../domain/attachment/owed-change.ts";
import { unownedAttachment } from "../../domain/attachment/unowned-attachment.ts";
import { explainCommand } from "../../domain/operator-command.ts";
import type { Orphan } from "../../domain/repair/orphan.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { BackendListings, StoreGate } from "../../ports.ts";
import { storeUnvetted } from "../errors.ts";
import type { Caller } from "../model.ts";
import { type AgentWord, type AgentWordDeps, agentEffect, askAgent } from "./agent-word.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { RemoveOrphanInput, RepairOutcome } from "./repair-model.ts";
import { type RepairVerbDeps, runVolumeVerb } from "./repair-verb.ts";

export interface RemoveAttachmentDeps extends RepairVerbDeps, AgentWordDeps {
  readonly gate: Pick<StoreGate, "state">;
  readonly listings: Pick<BackendListings, "can" | "volume">;
}

/** A node that nobody knows has a place of its own in the record; no node is called so. */
export const driverNodeKey = (driverNodeId: string): string => `driver:${driverNodeId}`;

const placeOf = (volume: VolumeRecord, { node, driverNodeId }: Orphan): string =>
  node === "" || volume.attachments[node] !== undefined ? driverNodeKey(driverNodeId) : node;

const owns = (volume: VolumeRecord, { driverNodeId }: Orphan): boolean =>
  Object.values(volume.attachments).some((a) => a.nodeId === driverNodeId);

const attachmentOf = (volume: VolumeRecord, orphan: Orphan, word: AgentWord, nodeEpoch: number): Attachment =>
  unownedAttachment(volume, {
    node: placeOf(volume, orphan),
    nodeId: orphan.driverNodeId,
    nodeEpoch: word.kind === "unknown-node" ? 0 : nodeEpoch,
  });

/** The approved detach of an attachment that no record owns: never while an agent shows the volume mounted there. */
export const removeAttachment = async (
  deps: RemoveAttachmentDeps,
  input: RemoveOrphanInput,
  orphan: Orphan,
  caller: Caller,
): Promise<RepairOutcome> => {
  const ref = { namespace: orphan.namespace, id: orphan.volume };
  const where = orphan.node === "" ? `the backend's node ${orphan.driverNodeId}` : `node ${orphan.node}`;
  const what = `the attachment of volume ${volumeKey(ref)} to ${where}`;
  const metadata = { namespace: ref.namespace, volume: ref.id, node: orphan.node };

  const gone = async (): Promise<boolean> => {
    if (deps.listings.can(orphan.plugin).single !== "yes") return false;
    const answer = await deps.listings.volume(orphan.plugin, orphan.externalId, deps.signal);
    if (answer.kind !== "done") return false;
    const nodes = answer.value === undefined ? [] : answer.value.publishedNodes;
    return nodes !== undefined && !nodes.includes(orphan.driverNodeId);
  };

  return await runVolumeVerb(deps, {
    verb: "RemoveOrphan",
    ref,
    asked: input,
    caller,
    subject: { orphan: orphan.id },

    async look(volume) {
      if (!deps.gate.state().open) throw storeUnvetted(deps.gate.state().reason);
      if (owns(volume, orphan))
        throw repairNotApplicable(what, "owned", "a record says that it is attached there", metadata);
      const word: AgentWord = orphan.node === "" ? { kind: "unknown-node" } : await askAgent(deps, orphan.node, volume);
      if (word.kind === "holds")
        throw repairNotApplicable(
          what,
          "held by its agent",
          `${where} answers and has the volume mounted; end what uses it there first`,
          metadata,
        );
      if (await gone())
        throw repairNotApplicable(what, "gone", "the backend does not show it any more; scan again", metadata);
      return word;
    },

    decide(volume, word, at) {
      if (volume.externalId !== orphan.externalId || volume.plugin !== orphan.plugin)
        throw repairNotApplicable(what, "another one's", "the volume has other storage now; scan again", metadata);
      if (owns(volume, orphan))
        throw repairNotApplicable(what, "owned", "a record says that it is attached there", metadata);
      // The call is repeated only for a volume that no node has, and the detach waits for the call: each would wait for the other.
      if (volume.intent?.op === "expand" && volume.expansion?.onlyUnused === true)
        throw repairNotApplicable(
          what,
          "being expanded",
          `ControllerExpandVolume has no certain answer yet, and is asked only while no node has it; repeat this once it is answered (${explainCommand(volume)})`,
          metadata,
        );
      const nodeEpoch = deps.nodes.get(orphan.node)?.record.nodeEpoch ?? 0;
      return {
        change: orphanDetachWanted(volume, attachmentOf(volume, orphan, word, nodeEpoch), at),
        confirmWith: `detach ${orphan.externalId} from ${orphan.driverNodeId}: nothing uses it there`,
        effects: [
          `${what} is detached (ControllerUnpublishVolume, repeated until the plugin answers that it is done)`,
          ...(orphan.node === "" ? [] : [agentEffect(word, orphan.node)]),
        ],
        risks: [`whatever uses the volume on ${where} without Holdfast loses it, and what was not written yet with it`],
        subject: {
          namespace: ref.namespace,
          volume: ref.id,
          volumeUid: volume.uid,
          plugin: volume.plugin,
          externalId: volume.externalId,
          node: orphan.node === "" ? orphan.driverNodeId : orphan.node,
          orphan: orphan.id,
        },
      };
    },
  });
};
