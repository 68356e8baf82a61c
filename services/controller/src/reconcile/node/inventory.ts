import { judgeVetting, showVetting, type Vetting } from "@holdfast/model/vetting";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway, Promised } from "../../agent-ports.ts";
import { living } from "../../domain/attachment/foreign-hold.ts";
import { unownedAttachment } from "../../domain/attachment/unowned-attachment.ts";
import { noChange } from "../../domain/change.ts";
import { offerAgain, publicationLost } from "../../domain/claim/claim-change.ts";
import type { Inventory } from "../../domain/claim/permit.ts";
import { type Attachment, type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { ControllerPlugins, NodeView, StoreGate } from "../../ports.ts";
import { nodePluginOf } from "../../records/attachment/node-plugin.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { noteForeignHolds, readableRecord, standingOf } from "./foreign-holds.ts";

export interface InventoryDeps {
  readonly records: VolumeRecords;
  readonly agents: AgentGateway;
  readonly plugins: Pick<ControllerPlugins, "facts">;
  readonly gate: StoreGate;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** What the agent really has: a released permit is remembered only until its release is acknowledged. */
const heldClaims = (inventory: Inventory) =>
  inventory.volumes.flatMap((volume) => living(volume.held).map((held) => ({ volume, held, uid: held.claimUid })));

interface Expected {
  readonly ref: VolumeRef;
  readonly uid: string;
  readonly state: "OFFERED" | "ACTIVE";
}

const expectedOn = async (records: VolumeRecords, node: string): Promise<readonly Expected[]> => {
  const found: Expected[] = [];
  for await (const { volume } of volumesOnNode(records, node))
    for (const { uid, state, node: at } of Object.values(volume.claims))
      if (at === node && (state === "OFFERED" || state === "ACTIVE")) found.push({ ref: volume, uid, state });
  return found;
};

const otherHistory = (node: string, vetting: Vetting, promised: Promised): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "OTHER_HISTORY",
    message: `node ${node} has promised generation ${showVetting(promised.vetting)}, and this store was vetted as ${showVetting(vetting)}: it follows no order of this controller; end the other history, or have this one vetted anew (holdfast repair vet --accept)`,
    metadata: { node },
  });

/**
 * Compares what an agent holds with the records: what the records have ended is released there, what it should hold and does not is
 * offered again under the same permit. Only with a vetted store, because a store that has lost writes would end living claims.
 * Claims are read before the agent is asked and permits are compared with records read after it, so that neither a new grant nor
 * a release in progress is taken for a difference. No record owes what the agent is told to let go: as long as it has not, it has to
 * be told again (`owed`), for the agent repeats nothing by itself. What the store does not know is left alone, and looked at again until
 * it is gone: no event tells that.
 */
export const reconcileInventory = async (
  { records, agents, plugins, gate, log, signal }: InventoryDeps,
  node: NodeView,
): Promise<"shut" | "settled" | "owed"> => {
  const { open, vetting } = gate.state();
  if (!open) return "shut";
  const name = node.record.name;
  // What was decided before the store was vetted comes too late from now on, and so behind the inventory too.
  const promised = await agents.promise(node.record, vetting, signal);
  if (!["same", "older"].includes(judgeVetting(vetting, promised.vetting))) throw otherHistory(name, vetting, promised);
  const expected = await expectedOn(records, name);
  const inventory = await agents.inventory(node.record, signal);
  const held = heldClaims(inventory);
  const heldUids = new Set(held.map((h) => h.uid));

  for (const { ref, uid, state } of expected) {
    if (heldUids.has(uid)) continue;
    await records.change(ref, (v, at) => {
      if (v.claims[uid]?.state !== state) return noChange(v);
      return state === "ACTIVE" ? publicationLost(v, uid, at) : offerAgain(v, uid, at);
    });
    log.info("the agent does not hold a claim that it was given; its permit is pushed again", {
      node: name,
      volume: volumeKey(ref),
      claim_uid: uid,
    });
  }

  let owed = 0;
  /** A store that was lost since may have been vetted with what its agents told later. */
  const isOfVetting = (): boolean => {
    const now = gate.state();
    return now.open && judgeVetting(vetting, now.vetting) === "same";
  };
  const attachmentOf = (volume: VolumeRecord): Attachment | undefined => {
    const { machineId, nodeEpoch } = node.record;
    const { nodeId = "" } = nodePluginOf(node, volume.plugin) ?? {};
    const known = nodeId !== "" && plugins.facts(volume.plugin).attaches === "yes";
    return known ? unownedAttachment(volume, { node: name, nodeId, nodeEpoch, machineId }) : undefined;
  };
  const foreign = await noteForeignHolds({ records, log, attachmentOf }, node.record, inventory, isOfVetting);
  for (const { volume, held: one, uid } of held) {
    const { namespace, volume: id, volumeUid, externalId, plugin } = volume;
    const found = await readableRecord(records, { namespace, id });
    if (found === "damaged" || (await standingOf(records, name, found, volume, one)) !== "over") continue;
    const { epoch } = one;
    const order = {
      namespace,
      volume: id,
      volumeUid,
      externalId,
      plugin,
      claimUid: uid,
      nodeEpoch: node.record.nodeEpoch,
      epoch,
    };
    const answer = await agents.release(node.record, order, { signal, attempt: 1, vetting });
    if (answer.kind !== "released") owed += 1;
    log.warn("the agent held a claim that is over; it was told to let go", {
      node: name,
      volume: `${namespace}/${id}`,
      claim_uid: uid,
      answer: answer.kind,
      ...(answer.kind === "released" ? {} : { reason: answer.reason, detail: answer.message }),
    });
  }
  if (!isOfVetting()) return "shut";
  return owed > 0 || foreign > 0 ? "owed" : "settled";
};
