/**
 * What the API has promised, told by its answers alone: which volumes and claims there are, what may have gone and what may remain, and
 * by CSI's own table who may have a volume at the same time.
 */

import { VolumeCapability_AccessMode_Mode as Mode } from "@holdfast/shared/gen/csi/v1/csi";
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Backend } from "@holdfast/sim-plugin/backend/backend";
import type { Publication } from "@holdfast/sim-plugin/backend/model";
import { claimOfTarget } from "./sim-hosts.ts";

export interface KnownVolume {
  readonly id: string;
  readonly uid: string;
  /** The name that its storage was asked for under; empty for storage that was there before. */
  readonly name: string;
  externalId: string;
  /** Somebody asked for its end. */
  mayGo: boolean;
  /** Its record may go and its storage stay. */
  mayRemain: boolean;
}

export interface KnownClaim {
  readonly uid: string;
  readonly workload: string;
  readonly alias: string;
  readonly volume: string;
  readonly node: string;
  readonly queued: boolean;
  /** Somebody asked for its end. */
  mayEnd: boolean;
}

export interface KnownSnapshot {
  readonly id: string;
  readonly externalId: string;
  mayGo: boolean;
}

export type ApiModel = ReturnType<typeof createApiModel>;

export const createApiModel = (foreign: string) => {
  const volumes = new Map<string, KnownVolume>();
  const claims = new Map<string, KnownClaim>();
  const cuts = new Map<string, KnownSnapshot>();
  /** Requests for the end of whatever has the id, that have no answer yet. */
  const ending = new Map<string, number>();
  const remaining = new Set<string>();
  const uncutOnce = new Set<string>();
  const forgotten = new Set<string>();
  const givenUp = new Set<string>();
  /** Nodes whose claims, those to come too, are ended by a drain; `false`: those that wait only. */
  const drained = new Map<string, boolean>();
  /** By node, how many requests for an end there were when the last drain of it was asked for or answered. */
  const drainedAt = new Map<string, number>();

  /** What was asked to end, in order: an answer that was held may come after the end of what it tells of. */
  const ends: ((claim: KnownClaim) => boolean)[] = [];
  const endedIds: string[] = [];

  /** When each id was last asked for: whatever has it now was not there before. */
  const askedFor = new Map<string, number>();

  /** What was made where there was no room, or too small, is known only to be deleted: it is nobody's data. */
  const storageOf = ({ state, deleteWanted, externalId }: Volume): string =>
    state === VolumeState.VOLUME_STATE_DELETING && !deleteWanted ? "" : externalId;

  const learn = (volume: Volume, since = askedFor.get(volume.id) ?? 0): void => {
    const externalId = storageOf(volume);
    const known = volumes.get(volume.uid);
    if (known !== undefined) {
      if (externalId !== "") known.externalId = externalId;
      return;
    }
    const { id, uid, name } = volume;
    const mayGo = (ending.get(id) ?? 0) > 0 || endedIds.slice(since).includes(id);
    volumes.set(uid, { id, uid, name, externalId, mayGo, mayRemain: remaining.has(id) });
  };

  const endWhere = (which: (claim: KnownClaim) => boolean): void => {
    ends.push(which);
    for (const claim of claims.values()) if (which(claim)) claim.mayEnd = true;
  };

  const ofId = (id: string) => [...volumes.values()].filter((known) => known.id === id);

  return {
    volumes,
    claims,
    cuts,
    /** The API answered with, or lists, this volume. */
    made: learn,
    /** Now, for answers to what is asked now. */
    moment: () => ({ ends: ends.length, ids: endedIds.length, drained: new Map(drained) }),
    /** A volume of that id is asked for. */
    wanted: (id: string) => void askedFor.set(id, endedIds.length),
    /** `since` is the moment of the request: the answer may come when what could end its claims is over. */
    claimed(
      answered: readonly Claim[],
      since: { readonly ends: number; readonly drained: ReadonlyMap<string, boolean> },
    ): void {
      for (const { uid, workload, alias, volume, node, queueDeadline } of answered) {
        const queued = queueDeadline !== undefined;
        const mayEnd = [drained, since.drained].some((on) => on.get(node) === true || (queued && on.has(node)));
        const claim = { uid, workload, alias, volume, node, queued, mayEnd };
        if (ends.slice(since.ends).some((which) => which(claim))) claim.mayEnd = true;
        if (!claims.has(uid)) claims.set(uid, claim);
      }
    },
    /** Somebody asks for the end of whatever has this id; the answer ends what later volumes of the id have to fear. */
    deleting(id: string): () => void {
      for (const known of ofId(id)) known.mayGo = true;
      endedIds.push(id);
      ending.set(id, (ending.get(id) ?? 0) + 1);
      return () => {
        for (const known of ofId(id)) known.mayGo = true;
        ending.set(id, (ending.get(id) ?? 1) - 1);
      };
    },
    /** From now on the storage of that id may outlive its record. */
    mayRemain(id: string): void {
      for (const known of ofId(id)) {
        known.mayGo = true;
        known.mayRemain = true;
      }
      remaining.add(id);
      endedIds.push(id);
    },
    draining(node: string, release: boolean): void {
      drained.set(node, release || drained.get(node) === true);
      endWhere((claim) => claim.node === node && (release || claim.queued));
      drainedAt.set(node, ends.length);
    },
    /** Somebody gave up a record whose storage may be attached: its node has a slot less than the records say. */
    gaveUp: () => givenUp.size > 0,
    /** An undrain that was asked for at `since` is answered: a drain that was asked for, or answered, later may have come behind it. */
    undrained(node: string, since: number): void {
      if ((drainedAt.get(node) ?? 0) <= since) drained.delete(node);
    },
    releasing: endWhere,
    /** With one member of a set all of it goes. */
    forgetting(id: string): void {
      for (const { externalId } of ofId(id)) givenUp.add(externalId);
      const users = new Set([...claims.values()].filter(({ volume }) => volume === id).map(({ workload }) => workload));
      endWhere(({ volume, workload }) => volume === id || users.has(workload));
    },
    cut(id: string, externalId: string): void {
      if (externalId !== "" && !cuts.has(externalId))
        cuts.set(externalId, { id, externalId, mayGo: uncutOnce.has(id) });
    },
    uncut(id: string, forget: boolean): void {
      uncutOnce.add(id);
      for (const known of cuts.values()) if (known.id === id) known.mayGo = true;
      if (forget) forgotten.add(id);
    },
    /** Storage of a record that no answer ever named, made and taken off the books in between: whose it is is not known. */
    mayBeLeft: (name: string): boolean =>
      remaining.size > 0 && ![...volumes.values()].some((known) => known.name === name),
    /** Of one that no answer ever named it is not known whose it is. */
    mayBeForgotten(externalId: string): boolean {
      const id = cuts.get(externalId)?.id;
      return id === undefined ? forgotten.size > 0 : forgotten.has(id);
    },
    /** Storage whose record a person forgot. */
    isGivenUp: (externalId: string) => givenUp.has(externalId),
    isForeign: (id: string) => ofId(id).some(({ name }) => name === ""),
    uidOf: (id: string) => ofId(id).at(-1)?.uid,
    externalIdOf: (id: string) => {
      const found = ofId(id).at(-1)?.externalId;
      return found === "" ? undefined : found;
    },
    /** What is there although it was promised that it stays: storage of volumes that nobody asked to end. */
    lost(backend: Backend): readonly string[] {
      const state = backend.state();
      const gone = [...volumes.values()].filter(
        ({ externalId, mayGo }) => !mayGo && externalId !== "" && !state.volumes.has(externalId),
      );
      const uncut = [...cuts.values()].filter(({ externalId, mayGo }) => !mayGo && !state.snapshots.has(externalId));
      return [
        ...gone.map(({ id, externalId }) => `volume ${id} (${externalId})`),
        ...uncut.map(({ id, externalId }) => `snapshot ${id} (${externalId})`),
        ...(state.volumes.has(foreign) ? [] : [foreign]),
      ];
    },
  };
};

const oneNode = new Set<number>([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);
/** Those that CSI lets be published at a second target of one node. */
const manyTargets = new Set<number>([
  Mode.MULTI_NODE_READER_ONLY,
  Mode.MULTI_NODE_SINGLE_WRITER,
  Mode.MULTI_NODE_MULTI_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);
const readers = new Set<number>([Mode.SINGLE_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY]);

const modeOf = ({ capability }: Publication): number => capability.accessMode?.mode ?? Mode.UNKNOWN;

/** CSI's words on access modes, over what is mounted: whoever has a volume that they may not have beside the others. */
export const wronglyHeld = (backend: Backend): readonly string[] =>
  [...backend.state().publications].flatMap(([volume, publications]) => {
    const [first, ...others] = publications;
    if (first === undefined || others.length === 0) return [];
    const mode = modeOf(first);
    const held = publications.map(({ target, node }) => `${claimOfTarget(target)}@${node}`).join(", ");
    const wrong: string[] = [];
    if (others.some((other) => modeOf(other) !== mode)) wrong.push("in different modes");
    if (oneNode.has(mode) && others.some(({ node }) => node !== first.node)) wrong.push("on several nodes");
    if (!manyTargets.has(mode)) wrong.push("by several workloads");
    const writing = readers.has(mode) ? [] : publications.filter(({ readonly }) => !readonly);
    if (mode === Mode.MULTI_NODE_SINGLE_WRITER && writing.length > 1) wrong.push("by several writers");
    return wrong.map((why) => `${volume} (mode ${mode}) is mounted ${why}: ${held}`);
  });
