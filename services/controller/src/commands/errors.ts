import { type ErrorKind, HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { grantBar } from "../domain/bar.ts";
import { type Obstacle, unvettedWords } from "../domain/claim/grant.ts";
import { type Dispute, disputeBlock } from "../domain/node/dispute.ts";
import { explainCommand, volumeCommand } from "../domain/operator-command.ts";
import { type CapabilityMismatch, noCapability } from "../domain/volume/capability-match.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../domain/volume/volume.ts";

/** The errors of commands, each with the reason and metadata of docs/errors.md and what to do next in its message. */

const named = (ref: VolumeRef): Record<string, string> => ({ namespace: ref.namespace, volume: ref.id });

export const volumeNotFound = (ref: VolumeRef): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "VOLUME_NOT_FOUND",
    message: `there is no volume ${volumeKey(ref)}; create or register it, or correct the id`,
    metadata: named(ref),
  });

export const volumeExists = (ref: VolumeRef, field: string): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "VOLUME_EXISTS",
    message: `volume ${volumeKey(ref)} exists with another ${field}; ask with its content, or take another id`,
    metadata: { ...named(ref), field },
  });

export const volumeLeaving = (ref: VolumeRef): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "VOLUME_EXISTS",
    message: `volume ${volumeKey(ref)} is being deleted; repeat the request once it is gone`,
    metadata: { ...named(ref), field: "state" },
  });

export const storageTaken = (
  ref: VolumeRef,
  storage: { readonly plugin: string; readonly externalId: string },
  owner: VolumeRef | undefined,
): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "VOLUME_EXISTS",
    message: `storage ${storage.externalId} of plugin ${storage.plugin} cannot be volume ${volumeKey(ref)}: it is ${owner === undefined ? "being registered by somebody else" : `volume ${volumeKey(owner)}`}; use that one, or deregister it first`,
    metadata: { ...(owner === undefined ? named(ref) : named(owner)), field: "external_id" },
  });

export const storageLeaving = (
  ref: VolumeRef,
  storage: { readonly plugin: string; readonly externalId: string },
  mark: VolumeRef & { readonly since: number },
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "EXTERNAL_VOLUME_LEAVING",
    message: `storage ${storage.externalId} of plugin ${storage.plugin} cannot be volume ${volumeKey(ref)}: a DeleteVolume for it may still arrive, since the record of volume ${volumeKey(mark)} ended at ${new Date(mark.since).toISOString()} with one whose outcome nobody knows; it is let go after 7 days, or see holdfast repair adopt`,
    metadata: { ...named(mark), plugin: storage.plugin, external_id: storage.externalId },
  });

export const volumeInUse = (
  ref: VolumeRef,
  users: readonly string[],
  holder: { readonly workload: string; readonly node: string },
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_IN_USE",
    message: `volume ${volumeKey(ref)} is in use by ${users.slice(0, 20).join("; ")}${users.length > 20 ? `; and ${users.length - 20} more` : ""}; release them first`,
    metadata: { ...named(ref), holder_workload: holder.workload, holder_node: holder.node },
  });

export const volumeNotAvailable = (volume: VolumeRecord): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_NOT_AVAILABLE",
    message: `volume ${volumeKey(volume)} is ${volume.goal === "absent" ? "being deleted" : volume.state}; ${explainCommand(volume)} says what it waits for`,
    metadata: { ...named(volume), state: volume.state },
  });

/** What a volume is to be made from was replaced, or grew, between the look at it and the commit. */
export const sourceChanged = (ref: VolumeRef): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `what volume ${volumeKey(ref)} is to be made from was changed by somebody else meanwhile; repeat the request`,
    metadata: named(ref),
  });

export const pluginNotFound = (plugin: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "PLUGIN_NOT_FOUND",
    message: `no instance of plugin ${plugin} was ever seen; start it beside a controller or on a node, or correct its name`,
    metadata: { plugin },
  });

export const pluginNotReady = (plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_NOT_READY",
    message: `plugin ${plugin} cannot be asked now: ${why}; repeat the request, or see holdfast plugin status ${plugin}`,
    metadata: { plugin, node: "" },
  });

export const pluginAmbiguous = (plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_AMBIGUOUS",
    message: why,
    metadata: { plugin },
  });

/** `refused`: agents that asked for a name and were refused, this one's perhaps among them. */
export const nodeNotFound = (node: string, refused: readonly Dispute[] = []): HoldfastError => {
  const dispute = refused.find((each) => each.node === node);
  const told = dispute && disputeBlock(dispute);
  const why = told === undefined ? "start the agent there, or correct the name" : `${told.message}; ${told.clearWith}`;
  return new HoldfastError({
    kind: "not_found",
    reason: "NODE_NOT_FOUND",
    message: `no agent ever registered as node ${node}; ${why}`,
    metadata: { node },
  });
};

export const storeUnvetted = (finding: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNVETTED",
    message: `${unvettedWords(finding)}; repeat, or see holdfast repair vet`,
    metadata: { finding },
  });

const untold = (ref: VolumeRef): string =>
  `its record was made anew after a total loss, and its agents do not tell how it may be used: name its capabilities with UpdateVolume, or end what holds it (${explainCommand(ref)}), then ${volumeCommand("volume deregister", ref)}, and register it again (docs/total-loss.md)`;

export const capabilityMismatch = (ref: VolumeRef, plugin: string, mismatch: CapabilityMismatch): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `volume ${volumeKey(ref)} of plugin ${plugin} cannot be used like that: ${mismatch.field} is ${mismatch.wanted}, the volume has ${mismatch.has}; ${mismatch.has === noCapability ? untold(ref) : "ask for one of its capabilities"}`,
    metadata: { ...named(ref), plugin, field: mismatch.field, wanted: mismatch.wanted, has: mismatch.has },
  });

export const pluginCannot = (ref: VolumeRef, plugin: string, field: string, what: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `plugin ${plugin} cannot ${what}, which volume ${volumeKey(ref)} needs; use another plugin, or ask for less`,
    metadata: { ...named(ref), plugin, field, wanted: what, has: "not supported" },
  });

/** No volume can be made from the source in any of the places that were asked for. */
export const sourceElsewhere = (ref: VolumeRef, source: string, keys: readonly string[]): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "TOPOLOGY_MISMATCH",
    message: `${source} cannot be used in the places that volume ${volumeKey(ref)} is asked for: ${keys.join("; ")}; ask for a place of the source, or restore from another snapshot`,
    metadata: { ...named(ref), source },
  });

export const claimExists = (
  claim: { readonly workload: string; readonly alias: string; readonly node: string },
  ref: VolumeRef,
  field: string,
): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "CLAIM_EXISTS",
    message: `workload ${claim.workload} has a living claim ${claim.alias} on volume ${volumeKey(ref)} at node ${claim.node} with another ${field}; release it first`,
    metadata: { ...named(ref), workload: claim.workload, alias: claim.alias, node: claim.node, field },
  });

export const volumeFull = (ref: VolumeRef, claims: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "TOO_MANY_CLAIMS",
    message: `volume ${volumeKey(ref)} has ${claims} claims, and its record has no room for more; release some first`,
    metadata: { ...named(ref), claims: String(claims) },
  });

export const claimNotFound = (ref: VolumeRef, workload: string, alias: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "CLAIM_NOT_FOUND",
    message: `workload ${workload} has no claim ${alias === "" ? "" : `${alias} `}on ${ref.id === "" ? `a volume of namespace ${ref.namespace}` : `volume ${volumeKey(ref)}`}, and had none in the last 7 days`,
    metadata: { ...named(ref), workload, alias },
  });

export const claimConflict = (
  ref: VolumeRef,
  message: string,
  holder: { readonly workload: string; readonly node: string; readonly alias: string },
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLAIM_CONFLICT",
    message: `${message}; release it, ask with queue.enabled, or use HandOver`,
    metadata: {
      ...named(ref),
      holder_workload: holder.workload,
      holder_node: holder.node,
      holder_alias: holder.alias,
    },
  });

export const holderQueued = (
  ref: VolumeRef,
  { workload, alias }: { readonly workload: string; readonly alias: string },
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "HOLDER_QUEUED",
    message: `workload ${workload} waits for volume ${volumeKey(ref)} itself (claim ${alias} is QUEUED) and has nothing to hand over there; name the aliases that it holds, or release that claim and ask with queue.enabled for the successor`,
    metadata: { ...named(ref), workload, alias },
  });

/** Total: a new obstacle does not compile until its class is chosen. */
const obstacleKinds: Record<Obstacle["reason"], ErrorKind> = {
  CLAIM_CONFLICT: "precondition",
  VOLUME_BUSY: "aborted",
  VOLUME_NOT_AVAILABLE: "precondition",
  NODE_NOT_READY: "precondition",
  PLUGIN_NOT_READY: "precondition",
  TOPOLOGY_MISMATCH: "precondition",
  STORE_UNVETTED: "unavailable",
  NODE_BARRED: "precondition",
  FOREIGN_HOLD: "precondition",
  ATTACH_LIMIT: "precondition",
};

/** Why a claim cannot be granted, as the error of a caller that does not want to wait. */
export const obstacleError = (
  volume: VolumeRecord,
  node: string,
  obstacle: Obstacle,
  known: { readonly nodeState: string; readonly unvetted?: string | undefined },
): HoldfastError => {
  const [holder] = obstacle.holders;
  if (obstacle.reason === "CLAIM_CONFLICT" && holder !== undefined)
    return claimConflict(volume, obstacle.message, holder);
  if (obstacle.reason === "STORE_UNVETTED") return storeUnvetted(known.unvetted ?? "");
  if (obstacle.reason === "VOLUME_NOT_AVAILABLE") return volumeNotAvailable(volume);
  return new HoldfastError({
    kind: obstacleKinds[obstacle.reason],
    reason: obstacle.reason,
    message: `${obstacle.message}; repeat later, or ask with queue.enabled`,
    metadata: {
      ...named(volume),
      node,
      plugin: volume.plugin,
      ...(obstacle.reason === "NODE_NOT_READY" ? { state: known.nodeState } : {}),
      ...(obstacle.reason === "VOLUME_BUSY" ? { operation: volume.intent?.op ?? "" } : {}),
      ...(obstacle.limit === undefined ? {} : { limit: String(obstacle.limit) }),
      ...(obstacle.pool === undefined ? {} : { pool: obstacle.pool }),
      ...(obstacle.reason === "NODE_BARRED" ? { issuer: grantBar(volume, { node, nodeId: "" })?.issuer ?? "" } : {}),
    },
  });
};
