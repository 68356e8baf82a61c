/** What is told of a hold that the store does not know. */
import { blockedFor } from "../blocked.ts";
import type { Blocked } from "../outcome.ts";
import { type ForeignHold, type VolumeRecord, volumeKey } from "../volume/volume.ts";

export const foreignWords = (volume: VolumeRecord, { node, workload, claimUid, toldBy }: ForeignHold): string =>
  `volume ${volumeKey(volume)} is held on node ${node} by claim ${claimUid} of workload ${workload === "" ? "unknown" : workload}, which the store does not know: it was granted by a store that has lost it${toldBy === undefined ? "" : ` (told by machine ${toldBy.machineId}, boot ${toldBy.bootId})`}`;

export const foreignBlock = (volume: VolumeRecord, hold: ForeignHold): Blocked =>
  blockedFor("FOREIGN_HOLD", { ...volume, ...hold }, foreignWords(volume, hold), undefined, hold.since);
