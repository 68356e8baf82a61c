import type { Logger } from "@holdfast/shared/log/logger";
import { noChange } from "../domain/change.ts";
import { offerAgain, publicationLost } from "../domain/claim-change.ts";
import { compareEpochs, type Epoch } from "../domain/epoch.ts";
import type { Inventory } from "../domain/permit.ts";
import { type VolumeRef, volumeKey } from "../domain/volume.ts";
import type { AgentGateway, NodeView, StoreGate } from "../ports.ts";
import type { VolumeRecords } from "../records/volume-records.ts";
import { volumesOnNode } from "../records/volumes-on-node.ts";

export interface InventoryDeps {
  readonly records: VolumeRecords;
  readonly agents: AgentGateway;
  readonly gate: StoreGate;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

type Held = Inventory["volumes"][number];

/** What the agent really has: a released permit is remembered only until its release is acknowledged. */
const heldClaims = (inventory: Inventory) =>
  inventory.volumes.flatMap((volume) =>
    volume.held.filter((h) => h.state !== "RELEASED").map((h) => ({ volume, uid: h.claimUid, epoch: h.epoch })),
  );

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

/**
 * The records end this claim: it is not in its volume, which is known, or waits for the detach alone, since its node is clean by proof or
 * by a person's word; and no newer grant than ours was held.
 */
const isOver = async (records: VolumeRecords, held: Held, uid: string, epoch: Epoch): Promise<boolean> => {
  const ref = { namespace: held.namespace, id: held.volume };
  const found = await records.get(ref);
  if (found?.volume.uid === held.volumeUid) {
    const claim = found.volume.claims[uid];
    return (claim === undefined || claim.state === "DETACHING") && compareEpochs(epoch, found.volume.epoch) <= 0;
  }
  const tombstone = await records.deleted(ref);
  return tombstone?.uid === held.volumeUid;
};

/**
 * Compares what an agent holds with the records: what the records have ended is released there, what it should hold and does not is
 * offered again under the same permit. Only with a vetted store, because a store that has lost writes would end living claims.
 * Claims are read before the agent is asked and permits are compared with records read after it, so that neither a new grant nor
 * a release in progress is taken for a difference. No record owes what the agent is told to let go: as long as it has not, it has to
 * be told again (`owed`), for the agent repeats nothing by itself.
 */
export const reconcileInventory = async (
  { records, agents, gate, log, signal }: InventoryDeps,
  node: NodeView,
): Promise<"shut" | "settled" | "owed"> => {
  if (!gate.state().open) return "shut";
  const name = node.record.name;
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
  for (const { volume, uid, epoch } of held) {
    if (!(await isOver(records, volume, uid, epoch))) continue;
    const { namespace, volume: id, volumeUid, externalId, plugin } = volume;
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
    const answer = await agents.release(node.record, order, { signal, attempt: 1 });
    if (answer.kind !== "released") owed += 1;
    log.warn("the agent held a claim that is over; it was told to let go", {
      node: name,
      volume: `${namespace}/${id}`,
      claim_uid: uid,
      answer: answer.kind,
      ...(answer.kind === "released" ? {} : { reason: answer.reason, detail: answer.message }),
    });
  }
  return owed > 0 ? "owed" : "settled";
};
