import { slotKey } from "../../domain/attachment/slots.ts";
import type { NodeView } from "../../ports.ts";
import type { NodeIndex } from "../../records/node-index.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";

export interface UsedSlots {
  readonly plugin: string;
  readonly used: number;
  /** Infinity = any number. */
  readonly limit: number;
}

/** What placement knows of a node, for people. */
export interface NodePlace {
  readonly placementClass: string;
  readonly slots: readonly UsedSlots[];
}

export interface NodePlaces {
  /** As it is remembered. */
  of(view: NodeView): NodePlace;
  /** Counts their slots, in one call to the store. */
  count(views: readonly NodeView[]): Promise<void>;
  /** Names behind `after` in their order, of one class or of all. */
  namesAfter: NodeIndex["namesAfter"];
}

const pluginsOn = ({ record }: NodeView): readonly string[] => [
  ...new Set(record.plugins.filter(({ role }) => role !== "CONTROLLER").map(({ name }) => name)),
];

export const createNodePlaces = (deps: {
  readonly index: NodeIndex;
  readonly records: Pick<VolumeRecords, "slots" | "attachLimit">;
}): NodePlaces => {
  const { index, records } = deps;
  return {
    of: (view) => ({
      placementClass: index.get(view.record.name)?.placementClass ?? "",
      slots: pluginsOn(view).map((plugin) => ({
        plugin,
        used: records.slots.used(slotKey(plugin, view.record.name)) ?? 0,
        limit: records.attachLimit(plugin, view.record.name).limit,
      })),
    }),
    count: (views) =>
      records.slots.recount(
        views.flatMap((view) => pluginsOn(view).map((plugin) => slotKey(plugin, view.record.name))),
      ),
    namesAfter: index.namesAfter,
  };
};
