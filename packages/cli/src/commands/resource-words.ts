import type { Blocked, CallUnderWay, Consequence, LastError } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Detail, detailsText } from "../frame/tables.ts";
import { ago, ahead } from "../words/moment.ts";

/** `a=1,b=2`, in the order of the names. */
export const mapWords = (map: Readonly<Record<string, string>>): string =>
  Object.entries(map)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`)
    .join(",");

/** `NodePublishVolume of csi.example for node-a: INTERNAL, attempt 3` */
const callWords = ({ csiMethod, csiCode, plugin, node, attempt }: LastError): string =>
  [
    `${csiMethod}${plugin === "" ? "" : ` of ${plugin}`}${node === "" ? "" : ` for ${node}`}${csiCode === "" ? "" : `: ${csiCode}`}`,
    ...(attempt === 0 ? [] : [`attempt ${attempt}`]),
  ].join(", ");

export const lastErrorText = (error: LastError | undefined): string =>
  error === undefined
    ? ""
    : [error.reason, error.csiMethod === "" ? "" : `(${callWords(error)})`, error.message]
        .filter((word) => word !== "")
        .join(" ");

export const blockedDetails = (blocked: Blocked | undefined, now: number): readonly Detail[] =>
  blocked === undefined
    ? []
    : [
        ["Blocked", `${blocked.reason}, ${ago(blocked.since, now)}: ${blocked.message}`],
        ["Missing proof", blocked.missingProof],
        ["Clear with", blocked.clearWith],
      ];

/** Below a table of plugin instances: those that get no call, and what clears that. */
export const blockedInstances = (
  instances: readonly { readonly name: string; readonly blocked: Blocked | undefined }[],
  now: number,
): string =>
  instances
    .filter(({ blocked }) => blocked !== undefined)
    .map(({ name, blocked }) => `\n${detailsText([["Instance", name], ...blockedDetails(blocked, now)])}`)
    .join("");

export const consequenceText = (consequence: Consequence | undefined): string =>
  [
    ...(consequence?.effects ?? []).map((line) => `  ${line}\n`),
    ...(consequence?.risks ?? []).map((line) => `  risk: ${line}\n`),
  ].join("");

/** `NodeStageVolume for node-a at sim, 12s ago, attempt 2, answer due in 48s` */
export const callText = (call: CallUnderWay | undefined, now: number): string =>
  call === undefined
    ? ""
    : [
        `${call.method}${call.node === "" ? "" : ` for ${call.node}`} at ${call.instance}`,
        ago(call.since, now),
        ...(call.attempt === 0 ? [] : [`attempt ${call.attempt}`]),
        `answer due ${ahead(call.deadline, now)}`,
      ].join(", ");

/** `MOUNT_HUNG, 3m ago` */
export const degradedText = (
  { degradedSince, degradedReason }: { readonly degradedSince?: Date | undefined; readonly degradedReason: string },
  now: number,
): string => (degradedSince === undefined ? "" : `${degradedReason}, ${ago(degradedSince, now)}`);
