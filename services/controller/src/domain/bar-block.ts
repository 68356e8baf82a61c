/** What is told of a bar. */
import { blockedFor } from "./blocked.ts";
import type { Blocked } from "./outcome.ts";
import { type Bar, type VolumeRecord, volumeKey } from "./volume/volume.ts";

/** Why a bar stands whose gate gave no answer; every other reason tells of a gate that is there. */
export const gateAway = "GATE_AWAY";

export const barWords = (volume: VolumeRecord, { op, node, via, issuer, since, attempts }: Bar): string => {
  const where = node === "" ? "" : ` for node ${node}`;
  const last =
    attempts.lastError === undefined ? "" : `; it was asked ${attempts.count} times: ${attempts.lastError.message}`;
  return `the call "${op}"${where} of volume ${volumeKey(volume)} was given to "${via}" by controller ${issuer} and may still do its work there; it was overtaken at ${new Date(since).toISOString()}${last}`;
};

/** Its host runs: what keeps the bar then is the plugin there, or a connection to it that broke. */
const hasAnswered = ({ attempts: { lastError } }: Bar): boolean =>
  lastError !== undefined && lastError.reason !== gateAway;

export const barBlock = (volume: VolumeRecord, bar: Bar): Blocked => {
  const answering = hasAnswered(bar) ? { answering: bar.via } : {};
  const subject = { ...volume, node: bar.node, bar: bar.opId, ...answering };
  return blockedFor("CALL_BARRED", subject, barWords(volume, bar), undefined, bar.since);
};
