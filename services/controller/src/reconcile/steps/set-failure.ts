import { memberKey, spreadFailure } from "../../domain/claim/claim-set-change.ts";
import type { Moment } from "../../domain/moment.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { ChangeOptions } from "../../records/volume/change-options.ts";
import { refOfKey } from "../../records/volume/volume-codec.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";

/** The volumes of every set that has a claim of this volume on the node; without one, on any. */
const volumesOfSets = (volume: VolumeRecord, node: string | undefined): readonly VolumeRef[] => {
  const keys = new Set([volumeKey(volume)]);
  for (const claim of Object.values(volume.claims))
    if ((node === undefined || claim.node === node) && claim.activeAt === undefined)
      for (const member of claim.set) keys.add(memberKey(member));
  return [...keys].map(refOfKey);
};

/**
 * Stores a change by which claims of the node may fail. When they belong to sets, the other members are let go in the same
 * commit: a crash between the two cannot leave half a set behind. One volume is one plain change.
 */
export const changeWithSets = async (
  records: VolumeRecords,
  volume: VolumeRecord,
  node: string | undefined,
  decide: Decide,
  options: ChangeOptions,
): Promise<{ readonly changed: boolean }> => {
  const primary = volumeKey(volume);
  for (let known: VolumeRecord | undefined = volume; ; ) {
    const refs = volumesOfSets(known, node);
    const keys = new Set(refs.map(volumeKey));
    /** Another set has joined since: its volumes have to be in the same commit. */
    let joined: VolumeRecord | undefined;
    const results = await records.changeMany(
      refs,
      (volumes, at: Moment) => {
        const byKey = new Map(volumes.flatMap((v) => (v === undefined ? [] : [[volumeKey(v), v] as const])));
        const main = byKey.get(primary);
        if (main === undefined) return [];
        joined = volumesOfSets(main, node).every((ref) => keys.has(volumeKey(ref))) ? undefined : main;
        if (joined !== undefined) return [];
        const changes = spreadFailure(byKey, primary, decide(main, at), at);
        return refs.map((ref) => changes.get(volumeKey(ref)));
      },
      options,
    );
    if (joined === undefined) return { changed: results.some((r) => r.changed) };
    known = joined;
  }
};
