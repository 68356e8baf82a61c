/**
 * Volumes that their backend does not know when it is asked how they are (NOT_FOUND).
 *
 * L1 Whether the id is right and the volume not deleted is looked at before it is asked about again: what ControllerGetVolume proves to be
 * gone is written down for a person, as the two-way sweep does; a plugin without that call is judged by the listings of the sweep.
 * L2 Each pause before the next question is about twice as long as the last one, up to an hour.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { mayBeJudged, recordOrphan, settleMs } from "../domain/repair/orphan.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import type { BackendListings } from "../ports.ts";
import type { OrphanRecords } from "../records/orphan-records.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";

export interface LostVolumesOptions {
  readonly records: Pick<VolumeRecords, "get">;
  readonly listings: Pick<BackendListings, "can" | "tells" | "volume">;
  readonly orphans: Pick<OrphanRecords, "found">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  readonly baseMs: number;
}

export interface LostVolumes {
  /** It is not to be asked about yet. */
  rests(volume: VolumeRecord): boolean;
  /** Its backend does not know it. */
  notFound(volume: VolumeRecord): Promise<void>;
  /** It has answered. */
  known(volume: VolumeRecord): void;
}

const longestMs = 3_600_000;
/** So many are remembered; any other is asked about as if it were the first time. */
const mostRemembered = 10_000;

export const createLostVolumes = (options: LostVolumesOptions): LostVolumes => {
  const { records, listings, orphans, clock, random, signal, baseMs } = options;
  const pauses = new Map<string, { readonly count: number; readonly until: number }>();

  const pause = (uid: string): void => {
    const count = pauses.get(uid)?.count ?? 0;
    pauses.delete(uid);
    const [oldest] = pauses.keys();
    if (pauses.size >= mostRemembered && oldest !== undefined) pauses.delete(oldest);
    const delay = backoffDelay(count, { baseMs: 2 * baseMs, capMs: longestMs, least: 0.5 }, random());
    pauses.set(uid, { count: count + 1, until: clock.monotonic() + delay });
  };

  return {
    rests: ({ uid }) => clock.monotonic() < (pauses.get(uid)?.until ?? 0),
    known: ({ uid }) => void pauses.delete(uid),
    async notFound(volume) {
      pause(volume.uid); // L2
      const { plugin, externalId, uid } = volume;
      const before = clock.now() - settleMs;
      if (listings.can(plugin).single !== "yes" || !listings.tells(volume)) return;
      const answer = await listings.volume(plugin, externalId, signal);
      if (answer.kind !== "done" || answer.value !== undefined) return;
      const now = (await records.get(volume))?.volume;
      if (now?.uid === uid && now.state === "AVAILABLE" && mayBeJudged(now, before))
        await orphans.found(recordOrphan(now)); // L1
    },
  };
};
