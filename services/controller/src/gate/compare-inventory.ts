import { compareEpochs, showEpoch } from "@holdfast/model/epoch";
import { living } from "../domain/attachment/foreign-hold.ts";
import type { ClaimTombstone } from "../domain/claim/claim.ts";
import type { Inventory } from "../domain/claim/permit.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../domain/volume/volume.ts";
import { type Finding, finding } from "./finding.ts";

export interface KnownVolumes {
  /** In the order asked, as they are in the store now. */
  read(refs: readonly VolumeRef[]): Promise<readonly (VolumeRecord | undefined)[]>;
  /** Whether that life of a claim is over, by its tombstone. */
  ended(life: Pick<ClaimTombstone, "namespace" | "volume" | "workload" | "alias" | "uid">): Promise<boolean>;
  /** Bars the volumes of what the store does not know. */
  noteForeign(node: NodeRecord, inventory: Inventory): Promise<unknown>;
  /** There is no volume at all. */
  none(): Promise<boolean>;
}

const batch = 200;

/**
 * What a node holds that the store does not know of, and that bars nothing yet: an epoch above the record's was granted by a store that has been
 * lost. What is only remembered as released holds nothing. A hold that is noted as foreign in the record of its volume bars that volume, and
 * keeps no other one waiting.
 */
export const compareInventory = async (
  node: Pick<NodeRecord, "name" | "journalUid">,
  inventory: Inventory,
  volumes: KnownVolumes,
): Promise<readonly Finding[]> => {
  const { name } = node;
  if (inventory.journalUid !== node.journalUid)
    return [finding("HOLD", `node ${name} has another journal than it registered with`, name)];
  const findings: Finding[] = [];
  for (let start = 0; start < inventory.volumes.length; start += batch) {
    const part = inventory.volumes.slice(start, start + batch);
    const records = await volumes.read(part.map(({ namespace, volume }) => ({ namespace, id: volume })));
    for (const [i, held] of part.entries()) {
      const message = disagreement(name, held, records[i]) ?? (await unknownClaim(name, held, records[i], volumes));
      if (message === undefined) continue;
      findings.push({ ...finding("HOLD", message, name), namespace: held.namespace, volume: held.volume });
    }
  }
  return findings;
};

const isNoted = (record: VolumeRecord | undefined, node: string, uid: string): boolean =>
  record?.foreign?.some((hold) => hold.node === node && hold.claimUid === uid) === true;

/** No epoch tells it: a store that was rolled back gives the same epochs again. */
const unknownClaim = async (
  node: string,
  { namespace, volume, held }: Inventory["volumes"][number],
  record: VolumeRecord | undefined,
  volumes: Pick<KnownVolumes, "ended">,
): Promise<string | undefined> => {
  for (const { claimUid: uid, workload, alias } of living(held)) {
    if (record?.claims[uid] !== undefined || isNoted(record, node, uid)) continue;
    if (await volumes.ended({ namespace, volume, workload, alias, uid })) continue;
    return `node ${node} holds volume ${volumeKey({ namespace, id: volume })} for claim ${uid} of workload ${workload}, which the store does not know`;
  }
  return undefined;
};

const disagreement = (
  node: string,
  { namespace, volume, volumeUid, held }: Inventory["volumes"][number],
  record: VolumeRecord | undefined,
): string | undefined => {
  const key = volumeKey({ namespace, id: volume });
  const mounted = living(held);
  if (record === undefined)
    return mounted.length === 0 ? undefined : `node ${node} holds volume ${key}, which the store does not know`;
  if (record.uid !== volumeUid)
    return mounted.length === 0 ? undefined : `node ${node} holds another life of volume ${key} than the store has`;
  const above = held.find(({ epoch }) => compareEpochs(epoch, record.epoch) > 0);
  return above === undefined
    ? undefined
    : `node ${node} holds volume ${key} under epoch ${showEpoch(above.epoch)}, and the store has granted ${showEpoch(record.epoch)} only`;
};
