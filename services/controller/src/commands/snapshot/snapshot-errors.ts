import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { barBlock, barWords } from "../../domain/bar-block.ts";
import type { CutKind, CutRecord, CutRef } from "../../domain/snapshot/snapshot.ts";
import { type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";

/** The errors of commands on snapshots and groups, each with the reason and metadata of docs/errors.md. */

const named = ({ kind, namespace, id }: CutRef): Record<string, string> => ({ namespace, [kind]: id });

export const snapshotNotFound = (ref: VolumeRef): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "SNAPSHOT_NOT_FOUND",
    message: `there is no snapshot ${volumeKey(ref)}; correct the id`,
    metadata: named({ kind: "snapshot", ...ref }),
  });

export const groupNotFound = (ref: VolumeRef): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "SNAPSHOT_GROUP_NOT_FOUND",
    message: `there is no snapshot group ${volumeKey(ref)}; correct the id`,
    metadata: named({ kind: "group", ...ref }),
  });

export const cutNotFound = (ref: CutRef): HoldfastError =>
  ref.kind === "group" ? groupNotFound(ref) : snapshotNotFound(ref);

export const cutExists = (ref: CutRef, field: string): HoldfastError => {
  const words: Readonly<Record<CutKind, string>> = { snapshot: "snapshot", group: "snapshot group" };
  return new HoldfastError({
    kind: "already_exists",
    ...(ref.kind === "group" ? { reason: "SNAPSHOT_GROUP_EXISTS" } : { reason: "SNAPSHOT_EXISTS" }),
    message:
      field === "state"
        ? `${words[ref.kind]} ${volumeKey(ref)} is being deleted; repeat the request once it is gone`
        : `${words[ref.kind]} ${volumeKey(ref)} exists with another ${field}; ask with its content, or take another id`,
    metadata: { ...named(ref), field },
  });
};

export const snapshotNotReady = (record: CutRecord): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "SNAPSHOT_NOT_READY",
    message: `${record.kind === "group" ? "snapshot group" : "snapshot"} ${volumeKey(record)} of plugin ${record.plugin} is ${record.goal === "absent" ? "being deleted" : record.state}; wait until it is READY`,
    metadata: { ...named(record), state: record.state },
  });

/** `by`: a volume that is being made from it, or the group that it belongs to. */
export const snapshotInUse = (
  record: CutRecord,
  by: { readonly kind: "volume" | "group"; readonly id: string },
  message: string,
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "SNAPSHOT_IN_USE",
    message,
    metadata: { namespace: record.namespace, snapshot: record.id, [by.kind]: by.id },
  });

/** Nothing of the set is made: `volumes` have ids of it. */
export const restoreTaken = (volumes: readonly VolumeRef[], field: string): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "VOLUME_EXISTS",
    message: `volume ${volumes.map(volumeKey).join(", ")} ${field === "restore" ? "exists, and not by this very request" : `exists with another ${field}`}; nothing was restored. Ask with what it was made by, or take other ids`,
    metadata: { namespace: volumes[0]?.namespace ?? "", volume: volumes[0]?.id ?? "", field },
  });

export const restoreNeedsUpgrade = (
  { namespace, group }: { readonly namespace: string; readonly group: string },
  format: number,
  needed: number,
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: `snapshot group ${namespace}/${group} is not restored as a set: the store has format ${format}, so that a controller of an earlier release may write to it, which leaves the others when one fails; end the upgrade first: holdfast upgrade finish`,
    metadata: { namespace, format: String(format), needed: String(needed) },
  });

export const pluginCannotCut = (plugin: string, field: string, what: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `plugin ${plugin} cannot ${what}; use a volume of another plugin`,
    metadata: { plugin, field, wanted: what, has: "not supported" },
  });

export const pluginNotReady = (plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_NOT_READY",
    message: `plugin ${plugin} cannot be asked now: ${why}; repeat when it is back`,
    metadata: { plugin, node: "" },
  });

export const pageTokenExpired = (plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "PAGE_TOKEN_EXPIRED",
    message: `plugin ${plugin} cannot continue the list (${why}); begin it anew with an empty page_token`,
    metadata: { plugin },
  });

export const notGivenUp = (record: CutRecord): HoldfastError => {
  const [bar] = record.bars;
  const rule =
    bar === undefined
      ? "forget is only for one that is CREATING and blocked with CREATE_UNCERTAIN. Delete it without forget"
      : `${barWords(record, bar)}; ${barBlock(record, bar).clearWith}`;
  return new HoldfastError({
    kind: "precondition",
    reason: "REPAIR_NOT_APPLICABLE",
    message: `${record.kind} ${volumeKey(record)} of plugin ${record.plugin} is ${record.state}${record.blocked === undefined ? "" : `, blocked: ${record.blocked.reason}`}; ${rule}`,
    metadata: { ...named(record), state: record.state },
  });
};
