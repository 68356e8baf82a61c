/** Finds what an agent holds and the store does not know, and bars the volumes of it. Nothing is taken from the agent. */
import { compareEpochs } from "@holdfast/model/epoch";
import type { Logger } from "@holdfast/shared/log/logger";
import {
  foreignNoted,
  type Held,
  judgeHold,
  living,
  speaksForHold,
  type Teller,
} from "../../domain/attachment/foreign-hold.ts";
import { withForgotten } from "../../domain/attachment/owed-change.ts";
import { noChange } from "../../domain/change.ts";
import type { Inventory } from "../../domain/claim/permit.ts";
import { type Attachment, type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { isDamage } from "../../records/damaged-records.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";

export type HeldVolume = Inventory["volumes"][number];

export interface ForeignHoldsDeps {
  readonly records: Pick<VolumeRecords, "get" | "ended" | "owner" | "list" | "change">;
  readonly log: Logger;
  /** How the volume is attached where it is held; undefined: it is not, or that is not known. */
  readonly attachmentOf?: (volume: VolumeRecord) => Attachment | undefined;
}

/** A record that cannot be read ends nothing, and grants nothing. */
export const readableRecord = async (
  records: Pick<VolumeRecords, "get">,
  ref: VolumeRef,
): Promise<VolumeRecord | "damaged" | undefined> => {
  try {
    return (await records.get(ref))?.volume;
  } catch (error) {
    if (isDamage(error)) return "damaged";
    throw error;
  }
};

/** `over`: the store has the tombstone of that very claim, or its claim waits for the detach alone. */
export const standingOf = async (
  records: Pick<VolumeRecords, "ended">,
  node: string,
  record: VolumeRecord | undefined,
  { namespace, volume, volumeUid }: HeldVolume,
  held: Held,
): Promise<"held" | "over" | "foreign"> => {
  const verdict = record?.uid === volumeUid ? judgeHold(record, held) : "unnamed";
  if (verdict === "newer") return "foreign";
  if (verdict !== "unnamed") return verdict;
  const { workload, alias, claimUid: uid } = held;
  const ended = await records.ended({ namespace, volume, workload, alias, uid });
  return ended?.node === node ? "over" : "foreign";
};

const isOf =
  ({ claimUid }: Pick<Held, "claimUid">) =>
  (other: Pick<Held, "claimUid">): boolean =>
    other.claimUid === claimUid;

/** Its grant was lost, and the claim ended since without it: the volume is granted again under a higher epoch, once it is let go of. */
const isAbove = ({ epoch }: Pick<Held, "epoch">, record: VolumeRecord | undefined): boolean =>
  record !== undefined && compareEpochs(epoch, record.epoch) > 0;

const isNoted = (record: VolumeRecord | undefined, node: string, { claimUid }: Held): boolean =>
  record?.foreign?.some((hold) => hold.node === node && hold.claimUid === claimUid) === true;

/**
 * Of one inventory; answers how many holds are foreign. One that a person has given up bars its volume until the agent holds it no more.
 *
 * What was noted of this life, and is not shown, is taken back only while `isOfVetting` says that the inventory was told under the vetting of the store as
 * it is, and by a vetted store: an inventory may have waited here while the store was lost and vetted anew, and it does not show what its
 * agent mounted since. Without it nothing is taken back.
 */
export const noteForeignHolds = async (
  { records, log, attachmentOf }: ForeignHoldsDeps,
  teller: Teller,
  inventory: Pick<Inventory, "volumes">,
  isOfVetting?: () => boolean,
): Promise<number> => {
  const { name: node } = teller;
  const unvetted = isOfVetting === undefined;
  const options = unvetted ? {} : { requiresVetted: true as const };
  const foreign = new Map<string, { readonly record: VolumeRecord; readonly holds: Held[] }>();
  let count = 0;
  for (const volume of inventory.volumes) {
    const found = await readableRecord(records, { namespace: volume.namespace, id: volume.volume });
    if (found === "damaged") continue;
    for (const held of living(volume.held)) {
      const standing = await standingOf(records, node, found, volume, held);
      if (standing === "held") continue;
      // Another record may stand for the same storage by now.
      const barred = found?.uid === volume.volumeUid ? found : (await records.owner(volume))?.volume;
      // Before the store is vetted, a claim that waits for its detach may have been offered since: nothing else keeps the detach back.
      const noted = isNoted(barred, node, held) || (unvetted && barred?.claims[held.claimUid] !== undefined);
      if (standing === "over" && !noted && !isAbove(held, barred)) continue;
      count += 1;
      const words = {
        foreign:
          "an agent holds a claim that the store does not know; it is left alone, and its volume is granted no more",
        over: "an agent still holds a claim that was given up; its volume is granted again when it has let go",
      };
      log.warn(words[standing], {
        node,
        volume: `${volume.namespace}/${volume.volume}`,
        claim_uid: held.claimUid,
        workload: held.workload,
        bars: barred === undefined ? "" : volumeKey(barred),
      });
      if (barred === undefined) continue;
      const bars = foreign.get(volumeKey(barred)) ?? { record: barred, holds: [] };
      bars.holds.push(held);
      foreign.set(volumeKey(barred), bars);
    }
  }
  for await (const { volume } of volumesOnNode(records, node))
    if (volume.foreign?.some((hold) => speaksForHold(teller, hold)) && !foreign.has(volumeKey(volume)))
      foreign.set(volumeKey(volume), { record: volume, holds: [] });
  for (const { record, holds } of foreign.values())
    await records.change(
      record,
      (v, at) => {
        if (v.uid !== record.uid) return noChange(v);
        const bars = (held: Held): boolean => {
          const verdict = judgeHold(v, held);
          return verdict === "over" ? unvetted || isNoted(v, node, held) : verdict !== "held";
        };
        const shown = holds.filter(bars);
        const before = isOfVetting?.() === true ? [] : (v.foreign ?? []);
        const kept = before.filter((hold) => speaksForHold(teller, hold) && !shown.some(isOf(hold)));
        const noted = foreignNoted(v, teller, [...kept, ...shown], at.now);
        const attachment = attachmentOf?.(v);
        if (noted.volume === null || attachment === undefined) return noted;
        return { ...noted, volume: withForgotten(noted.volume, attachment, at.now) };
      },
      options,
    );
  return count;
};
