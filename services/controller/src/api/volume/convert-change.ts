/** Changes of a volume that are under way: expansion, growth on nodes, modification → messages of holdfast.v1. */
import {
  VolumeChangeState,
  type Expansion as WireExpansion,
  type Modification as WireModification,
  type NodeExpansion as WireNodeExpansion,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { noAttempts } from "../../domain/outcome.ts";
import type { ExpansionState } from "../../domain/size/expansion.ts";
import { pendingNodes } from "../../domain/size/growth.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { blockedMessage, dateOf, errorOf } from "../convert-message.ts";

/** A record may have more; the whole list of names stands beside. */
const shown = 100;

const states: Readonly<Record<ExpansionState, VolumeChangeState>> = {
  WANTED: VolumeChangeState.VOLUME_CHANGE_STATE_WAITING,
  CALLING: VolumeChangeState.VOLUME_CHANGE_STATE_CALLING,
  UNCERTAIN: VolumeChangeState.VOLUME_CHANGE_STATE_UNCERTAIN,
  REFUSED: VolumeChangeState.VOLUME_CHANGE_STATE_REFUSED,
};

const nodeMessage = (
  part: ReturnType<typeof pendingNodes>[number],
  { plugin, updatedAt }: VolumeRecord,
): WireNodeExpansion => ({
  node: part.node,
  attempts: part.attempts.count,
  nextTry: dateOf(part.attempts.nextTry),
  lastError: errorOf(part.attempts, undefined, updatedAt, { plugin, node: part.node }),
  blocked: blockedMessage(part.blocked),
});

export const expansionMessage = (volume: VolumeRecord): WireExpansion | undefined => {
  const { expansion, growth, updatedAt } = volume;
  const refusedOnly = expansion?.state === "REFUSED" && growth !== undefined;
  const wish = refusedOnly ? undefined : expansion;
  if (wish === undefined && growth === undefined) return undefined;
  const attempts = wish?.attempts ?? noAttempts;
  const nodes = pendingNodes(volume);
  return {
    wantedBytes: BigInt(wish?.target.required ?? growth?.bytes ?? 0),
    limitBytes: BigInt(wish?.target.limit ?? growth?.limit ?? 0),
    nextBytes: BigInt(wish?.next?.required ?? 0),
    controllerDone: wish === undefined && growth !== undefined && !growth.byNodes,
    pendingNodes: nodes.map(({ node }) => node),
    since: dateOf(wish?.since ?? growth?.since),
    state: wish === undefined ? VolumeChangeState.VOLUME_CHANGE_STATE_NODES : states[wish.state],
    uncertainSince: dateOf(wish?.uncertainSince),
    attempts: attempts.count,
    nextTry: dateOf(attempts.nextTry),
    lastError: errorOf(attempts, wish?.failure, updatedAt, volume),
    blocked: blockedMessage(wish?.blocked ?? nodes.find(({ blocked }) => blocked !== undefined)?.blocked),
    nodes: nodes.slice(0, shown).map((part) => nodeMessage(part, volume)),
    onlyUnused: wish?.onlyUnused ?? false,
  };
};

export const modificationMessage = ({ modification, updatedAt, plugin }: VolumeRecord): WireModification | undefined =>
  modification && {
    mutableParameters: { ...modification.target },
    state: states[modification.state],
    since: dateOf(modification.since),
    uncertainSince: dateOf(modification.uncertainSince),
    attempts: modification.attempts.count,
    nextTry: dateOf(modification.attempts.nextTry),
    lastError: errorOf(modification.attempts, modification.failure, updatedAt, { plugin }),
    blocked: blockedMessage(modification.blocked),
  };
