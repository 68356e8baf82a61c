/** What is told of a bar. */
import { blockedFor } from "./blocked.ts";
import type { CallBar } from "./open-call.ts";
import type { Blocked } from "./outcome.ts";
import type { CutRecord } from "./snapshot/snapshot.ts";
import { type VolumeRecord, volumeKey } from "./volume/volume.ts";

/** Why a bar stands whose gate gave no answer; every other reason tells of a gate that is there. */
export const gateAway = "GATE_AWAY";

type Barring = VolumeRecord | CutRecord;
type Told = CallBar & { readonly node?: string };

export const barWords = (record: Barring, { op, node = "", via, issuer, since, attempts }: Told): string => {
  const kind = "kind" in record ? record.kind : "volume";
  const where = node === "" ? "" : ` for node ${node}`;
  const last =
    attempts.lastError === undefined ? "" : `; it was asked ${attempts.count} times: ${attempts.lastError.message}`;
  return `the call "${op}"${where} of ${kind} ${volumeKey(record)} was given to "${via}" by controller ${issuer} and may still do its work there; it was overtaken at ${new Date(since).toISOString()}${last}`;
};

/** The gate that has the call gave no answer: nobody can say whether it is over. */
const isGateSilent = ({ attempts: { lastError } }: CallBar): boolean => lastError?.reason === gateAway;

export const silentGatesOf = ({ bars }: { readonly bars: readonly CallBar[] }): readonly string[] =>
  bars.filter(isGateSilent).map(({ via }) => via);

/** Its host runs: what keeps the bar then is the plugin there, or a connection to it that broke. */
const hasAnswered = (bar: CallBar): boolean => bar.attempts.lastError !== undefined && !isGateSilent(bar);

export const barBlock = (record: Barring, bar: Told): Blocked => {
  const node = bar.node === undefined ? {} : { node: bar.node };
  const answering = hasAnswered(bar) ? { answering: bar.via } : {};
  const subject = { ...record, ...node, bar: bar.opId, ...answering };
  return blockedFor("CALL_BARRED", subject, barWords(record, bar), undefined, bar.since);
};
