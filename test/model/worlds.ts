/** The worlds that are searched, by the names of their bounds. The product is loaded when one is made, and not before. */
import { type BoundsName, bounds, exhausted } from "./bounds.ts";
import { exhaustedHistories, type HistoryName, historyBounds } from "./history-bounds.ts";
import type { World } from "./search/search.ts";

export type WorldName = BoundsName | HistoryName;

const isHistory = (name: WorldName): name is HistoryName => name in historyBounds;

export const worldNames = [...Object.keys(bounds), ...Object.keys(historyBounds)] as readonly WorldName[];

export const exhaustedWorlds: readonly WorldName[] = [...exhausted, ...exhaustedHistories];

export const worldOf = async (name: WorldName): Promise<World> => {
  if (isHistory(name)) {
    const { createOneHistory } = await import("./histories/one-history.ts");
    return createOneHistory(historyBounds[name]);
  }
  const { createOneVolume } = await import("./volume/one-volume.ts");
  return createOneVolume(bounds[name]);
};
