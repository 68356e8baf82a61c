/** What is told of a bar. */
import { blockedFor } from "./blocked.ts";
import type { Blocked } from "./outcome.ts";
import { type Bar, type VolumeRecord, volumeKey } from "./volume/volume.ts";

export const barWords = (volume: VolumeRecord, { op, node, via, issuer, since, attempts }: Bar): string => {
  const where = node === "" ? "" : ` for node ${node}`;
  const last =
    attempts.lastError === undefined ? "" : `; it was asked ${attempts.count} times: ${attempts.lastError.message}`;
  return `the call "${op}"${where} of volume ${volumeKey(volume)} was given to "${via}" by controller ${issuer} and may still do its work there; it was overtaken at ${new Date(since).toISOString()}${last}`;
};

export const barBlock = (volume: VolumeRecord, bar: Bar): Blocked =>
  blockedFor("CALL_BARRED", { ...volume, node: bar.node, bar: bar.opId }, barWords(volume, bar), undefined, bar.since);
