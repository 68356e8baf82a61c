/** Wants claims gone, set by set: what was granted or queued together is let go together. */
import { type Change, foldChanges } from "../domain/change.ts";
import type { Claim } from "../domain/claim/claim.ts";
import { releaseWanted } from "../domain/claim/claim-change.ts";
import { memberKey } from "../domain/claim/claim-set-change.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume/volume.ts";
import type { ChangeOptions } from "./volume/change-options.ts";
import { refOfKey } from "./volume/volume-codec.ts";
import type { VolumeRecords } from "./volume/volume-records.ts";

/** Is this claim, as it is now, to go? Asked anew for every commit. */
export type MeantClaim = (claim: Claim, volume: VolumeRecord) => boolean;

/**
 * Releases what is meant of the volumes, one after the other. Whoever is stopped between two commits leaves each set whole: were its
 * members released volume by volume, those that were left could be granted without the others, and a part of a set is of use to nobody.
 */
export const releaseWholeSets = async (
  records: Pick<VolumeRecords, "changeMany">,
  volumes: AsyncIterable<VolumeRecord> | Iterable<VolumeRecord>,
  meant: MeantClaim,
  trace: Claim["trace"],
  options: ChangeOptions = {},
): Promise<void> => {
  const done = new Set<string>();
  for await (const volume of volumes) {
    const wanted = Object.values(volume.claims).filter((claim) => claim.goal === "active" && meant(claim, volume));
    // One commit for each set, and for all claims together whose sets are of this volume alone.
    const sets = new Map<string, readonly Claim[]>();
    for (const claim of wanted) {
      const key = [...new Set([volumeKey(volume), ...claim.set.map(memberKey)])].sort().join(" ");
      sets.set(key, [...(sets.get(key) ?? []), claim]);
    }
    for (const [keys, claims] of sets) {
      const uids = new Set(claims.flatMap((claim) => [claim.uid, ...claim.set.map(({ uid }) => uid)]));
      if (claims.every(({ uid }) => done.has(uid))) continue;
      const refs = keys.split(" ").map(refOfKey);
      const release = (found: VolumeRecord, at: Parameters<typeof releaseWanted>[3]): Change =>
        foldChanges(
          found,
          Object.values(found.claims).filter((c) => uids.has(c.uid) && c.goal === "active" && meant(c, found)),
          (next, { uid }) => releaseWanted(next, uid, trace, at),
        );
      await records.changeMany(
        refs,
        (now, at) => now.map((found) => (found === undefined ? undefined : release(found, at))),
        options,
      );
      for (const uid of uids) done.add(uid);
    }
  }
};
