import type { DriverSettings } from "./driver-settings.ts";

type Segments = Readonly<Record<string, string>>;

/** The one place from which a volume of this driver can be reached. */
export const ownSegments = ({ topologyKey, nodeId }: Pick<DriverSettings, "topologyKey" | "nodeId">): Segments => ({
  [topologyKey]: nodeId,
});

/** A place is this node when it says nothing else; of segments that are not ours we cannot vouch. */
export const isHere = (segments: Segments, { topologyKey, nodeId }: DriverSettings): boolean =>
  Object.entries(segments).every(([key, value]) => key === topologyKey && value === nodeId);

/** "The volume must be reachable from at least one of these"; preferred ones alone oblige to nothing. */
export const mayBeHere = (requisite: readonly Segments[], settings: DriverSettings): boolean =>
  requisite.length === 0 || requisite.some((segments) => isHere(segments, settings));
