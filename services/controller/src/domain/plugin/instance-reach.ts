/**
 * Which instances of a plugin may take a call about a volume or a snapshot. Instances of one plugin are not equals: an instance of a
 * node-local driver has the storage of its own node and answers OK to the deletion of a volume that it never had.
 *
 * R1 A call about storage goes to an instance that reaches the place of the storage, and to no other instance. R2 A place that
 * cannot be derived is never guessed. R3 An instance that is away takes nothing with it: its places are waited for.
 */

import type { Seat } from "../open-call.ts";
import type { SnapshotRecord } from "../snapshot/snapshot.ts";
import { withinSource } from "../volume/source-topology.ts";
import type { Segments, VolumeRecord } from "../volume/volume.ts";
import type { PluginProfile } from "./plugin-profile.ts";

/** One instance of a plugin, and what it tells of the place where it runs. */
export interface InstancePlace {
  /** Empty beside a controller. */
  readonly node: string;
  /** The plugin's own name for the node; empty when the instance tells none. */
  readonly nodeId: string;
  /** Controller service and node service in one instance. */
  readonly monolith: boolean;
  readonly segments: Segments;
}

/** `own`: the places that its segments lie in. `ambiguous`: own places that nothing names. */
export type Reach = "all" | "own" | "ambiguous";

const hasSegments = ({ segments }: InstancePlace): boolean => Object.keys(segments).length > 0;

/** CSI: keys of segments are compared without regard to their case, values as they are. */
const entriesOf = (segments: Segments): readonly (readonly [string, string])[] =>
  Object.entries(segments).map(([key, value]) => [key.toLowerCase(), value] as const);

/** Whether a place, which may be larger than a node, contains the node with these segments. */
export const contains = (place: Segments, segments: Segments): boolean => {
  const has = new Map(entriesOf(segments));
  return entriesOf(place).every(([key, value]) => has.get(key) === value);
};

/** An instance beside the controller may run on a node as well: then the plugin gives both the same name for the node. */
const hostKeys = (places: readonly InstancePlace[]): ((place: InstancePlace) => string) => {
  const nodes = new Map(places.flatMap(({ node, nodeId }) => (node === "" || nodeId === "" ? [] : [[nodeId, node]])));
  return ({ node, nodeId }) => {
    const host = node === "" ? (nodes.get(nodeId) ?? "") : node;
    return host === "" ? `beside ${nodeId}` : `node ${host}`;
  };
};

const grouped = (pairs: Iterable<readonly [string, string]>): ReadonlyMap<string, ReadonlySet<string>> => {
  const sets = new Map<string, Set<string>>();
  for (const [key, value] of pairs) sets.set(key, (sets.get(key) ?? new Set()).add(value));
  return sets;
};

/** Whether all instances of a plugin with so many monoliths reach everything, wherever they are: what `reachesOf` finds of them. */
export const reachAll = (told: PluginProfile["reach"], monoliths: number): boolean =>
  told === "all" || (told !== "own" && monoliths === 0);

/** Of all places of a plugin that are known, whether or not the instances there can be called now (R3). */
export const reachesOf = (
  places: readonly InstancePlace[],
  told: PluginProfile["reach"],
): ReadonlyMap<InstancePlace, Reach> => {
  const hostOf = hostKeys(places);
  const hosts = grouped(
    places.flatMap((place) => entriesOf(place.segments).map((pair) => [pair.join("="), hostOf(place)] as const)),
  );
  const monoliths = new Set(places.filter(({ monolith }) => monolith).map(hostOf));
  const reach = (place: InstancePlace): Reach => {
    if (told === "all") return "all";
    if (told === "own") return hasSegments(place) ? "own" : "ambiguous";
    if (!place.monolith) return "all";
    if (!hasSegments(place)) return monoliths.size > 1 ? "ambiguous" : "all";
    return entriesOf(place.segments).some((pair) => hosts.get(pair.join("="))?.size === 1) ? "own" : "all";
  };
  return new Map(places.map((place) => [place, reach(place)]));
};

/** What a call is about, as far as its place is known: volumes, snapshots and groups fit, and a question about the plugin itself. */
export interface CallSubject
  extends Partial<
    Pick<
      VolumeRecord,
      "name" | "externalId" | "topology" | "home" | "binding" | "source" | "contentSource" | "attachments"
    >
  > {
  readonly kind?: "snapshot" | "group";
  readonly claims?: Readonly<Record<string, { readonly node: string }>>;
  readonly intent?: { readonly uncertainSince?: number };
  readonly accessible?: readonly Segments[];
  readonly externalVolumeId?: string;
  readonly members?: readonly Pick<SnapshotRecord, "externalVolumeId">[];
}

/** Storage that every instance can be asked about. */
export interface AskedStorage {
  readonly kind: "volume" | "snapshot";
  readonly externalId: string;
}

/** The place of a subject. */
export type Whereabouts =
  /** The call names no storage. */
  | { readonly kind: "anywhere" }
  /** In one place of each list. */
  | { readonly kind: "places"; readonly lists: readonly (readonly Segments[])[] }
  | { readonly kind: "nodes"; readonly names: readonly string[]; readonly ids: readonly string[] }
  /** Nothing was made yet, and no call has left: the place can still be chosen. */
  | {
      readonly kind: "choose";
      readonly lists: readonly (readonly Segments[])[];
      readonly preferred: readonly Segments[];
    }
  /** The instances have to be asked; without `ask` there is nothing to ask for. */
  | { readonly kind: "unknown"; readonly ask?: AskedStorage };

const isPlace = (segments: Segments | undefined): segments is Segments =>
  segments !== undefined && Object.keys(segments).length > 0;

const places = (...lists: readonly (readonly Segments[])[]): Whereabouts => ({
  kind: "places",
  lists: lists.filter((list) => list.length > 0),
});

const asking = (kind: AskedStorage["kind"], externalId: string | undefined): Whereabouts =>
  externalId === undefined || externalId === "" ? { kind: "unknown" } : { kind: "unknown", ask: { kind, externalId } };

/** Where storage is that was made or registered; undefined = the record does not say. */
export const placesOf = ({ topology, home, binding }: CallSubject): readonly Segments[] | undefined => {
  if (topology !== undefined && topology.accessible.length > 0) return topology.accessible;
  if (isPlace(home)) return [home];
  return isPlace(binding?.place) ? [binding.place] : undefined;
};

/** What is made of a volume keeps where that one was: it is there as well. */
export const placed = (volume: VolumeRecord): { readonly accessible?: readonly Segments[] } => {
  const accessible = placesOf(volume);
  return accessible === undefined ? {} : { accessible };
};

/** The nodes that have, or had, a volume of which no place is known: a node-local driver attaches it nowhere else. */
const nodesOf = ({ attachments = {}, claims = {}, binding }: CallSubject): Whereabouts | undefined => {
  const attached = Object.values(attachments);
  const all = [...attached.map(({ node }) => node), ...Object.values(claims).map(({ node }) => node)];
  if (all.length === 0 && binding !== undefined) all.push(binding.node);
  const names = [...new Set(all.filter((node) => node !== ""))];
  return names.length === 0
    ? undefined
    : { kind: "nodes", names, ids: [...new Set(attached.map(({ nodeId }) => nodeId).filter((id) => id !== ""))] };
};

/** Claims of a volume that is made already say where it is; those of one that is yet to be made only say where it is wanted. */
const whereMade = (volume: CallSubject): Whereabouts => {
  const known = placesOf(volume);
  if (known !== undefined) return places(known);
  return nodesOf(volume) ?? asking("volume", volume.externalId);
};

const whereUnmade = (volume: CallSubject): Whereabouts => {
  const { topology, home, binding, source, contentSource, intent } = volume;
  const sources = source?.accessible ?? [];
  if (isPlace(home)) return places([home]);
  if (binding !== undefined) {
    if (isPlace(binding.place)) return places([binding.place], sources);
    return { kind: "nodes", names: [binding.node].filter((node) => node !== ""), ids: [] };
  }
  // A call has left and nothing says where to: only the instance that got it knows what it made.
  if (intent?.uncertainSince !== undefined) return { kind: "unknown" };
  if (source !== undefined && sources.length === 0)
    return asking(contentSource?.kind === "snapshot" ? "snapshot" : "volume", source.externalId);
  const { required, preferred } = withinSource(topology ?? { required: [], preferred: [] }, source?.usableFrom);
  return {
    kind: "choose",
    lists: [required, sources].filter((list) => list.length > 0),
    preferred,
  };
};

const whereCut = ({ kind, externalId, accessible = [], externalVolumeId, members }: CallSubject): Whereabouts => {
  if (accessible.length > 0) return places(accessible);
  if (kind === "snapshot" && externalId !== undefined && externalId !== "") return asking("snapshot", externalId);
  return asking("volume", externalVolumeId ?? members?.[0]?.externalVolumeId);
};

export const whereIs = (subject: CallSubject): Whereabouts => {
  if (subject.kind !== undefined) return whereCut(subject);
  if (subject.topology !== undefined) return subject.externalId === "" ? whereUnmade(subject) : whereMade(subject);
  return subject.accessible === undefined ? { kind: "anywhere" } : places(subject.accessible);
};

/** R1. An ambiguous instance reaches nothing that anything could name. */
export const reaches = (one: InstancePlace, reach: Reach, where: Whereabouts): boolean => {
  if (reach !== "own") return reach === "all";
  switch (where.kind) {
    case "anywhere":
      return true;
    case "places":
      return where.lists.every((list) => list.some((place) => contains(place, one.segments)));
    case "nodes":
      return one.node === "" ? where.ids.includes(one.nodeId) : where.names.includes(one.node);
    case "choose":
    case "unknown":
      return false;
  }
};

/** The places of `own` instances that a volume can be made in, the best first: its home is chosen before its first call. */
export const homesFor = (where: Whereabouts, instances: readonly InstancePlace[]): readonly InstancePlace[] => {
  if (where.kind !== "choose") return [];
  const fit = instances.filter(({ segments }) =>
    where.lists.every((list) => list.some((place) => contains(place, segments))),
  );
  const rank = ({ segments }: InstancePlace): number => {
    const at = where.preferred.findIndex((place) => contains(place, segments));
    return at < 0 ? where.preferred.length : at;
  };
  return fit.toSorted((a, b) => rank(a) - rank(b));
};

export const segmentsText = (segments: Segments): string =>
  Object.entries(segments)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");

/** Where an instance is waited for, for people. `known` are the places of the plugin that were seen, also those that are gone. */
export const whereText = (where: Whereabouts, known: readonly InstancePlace[]): string => {
  if (where.kind === "nodes") return `node ${where.names.join(" or ")}`;
  if (where.kind !== "places" && where.kind !== "choose") return "";
  const said = where.lists.map((list) => list.map(segmentsText).join(" or ")).join(", and within ");
  const nodes = known.filter((one) => hasSegments(one) && reaches(one, "own", { kind: "places", lists: where.lists }));
  const names = [...new Set(nodes.map(({ node }) => (node === "" ? "the controller's host" : `node ${node}`)))];
  return [...names.slice(0, 3), said].filter((text) => text !== "").join(": ");
};

/** What every instance said of storage: its instance, or undefined when nothing proves which one it is (R2). */
export const foundAt = <I>(
  answers: readonly { readonly of: I; readonly has: "yes" | "no" | "unknown" }[],
): I | undefined => {
  const [first, ...others] = answers.filter(({ has }) => has === "yes");
  return others.length === 0 ? first?.of : undefined;
};

/** The subject of a call, as far as the choice of an instance depends on it: a volume, a snapshot, a question about the plugin. */
export interface CallTarget extends CallSubject {
  readonly plugin: string;
  /** Whose secrets a call about it may carry. */
  readonly namespace?: string;
  /** The instance that is asked, and no other, if it reaches the subject. */
  readonly only?: string;
  /** The instance that the call was given to, wherever the subject is. */
  readonly via?: string | undefined;
  /** Only if the life of the node that is there now speaks for that incarnation of it (O6 of open-call.ts). */
  readonly gateEpoch?: number | undefined;
}

/** The plugin instance that the call of a new intent of the record `key` is given to; undefined = this controller gives it to none. */
export type RouteOf = (target: CallTarget, key: string) => Seat | undefined;
