import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type CallNews, type CallSite, dropsOpenCall } from "../domain/open-call.ts";
import { takeOverCommand } from "../domain/operator-command.ts";
import type { CutRecord } from "../domain/snapshot/snapshot.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume/volume.ts";

type Called = VolumeRecord | CutRecord;

const callMayBeOpen = (record: Called, { issuer, via = "" }: CallSite): HoldfastError => {
  const kind = "kind" in record ? record.kind : "volume";
  return new HoldfastError({
    kind: "precondition",
    reason: "CALL_MAY_BE_OPEN",
    message: `a call for ${kind} ${volumeKey(record)} was given to plugin instance "${via}" by controller ${issuer} and may be open there; repeat the request when it has ended; when that instance or that controller is off for good: ${takeOverCommand(record)}`,
    metadata: { namespace: record.namespace, [kind]: record.id, instance: via, issuer },
  });
};

/** No change lets go of a call that may be open at the plugin, but one that knows (`settles`) that this very call has ended, or never left. */
export const keepsOpenCall = (before: Called, after: Called | null, settles?: CallNews): void => {
  const { intent } = before;
  if (intent !== undefined && dropsOpenCall(before, after, settles)) throw callMayBeOpen(before, intent);
};
