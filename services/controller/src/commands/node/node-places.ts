import { countedSlots, type PoolState } from "../../domain/attachment/attach-pool.ts";
import { slotKey } from "../../domain/attachment/slots.ts";
import type { NodeView } from "../../ports.ts";
import type { NodeIndex } from "../../records/node-index.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";

export interface UsedSlots {
  readonly plugin: string;
  readonly used: number;
  /** Infinity = any number. */
  readonly limit: number;
  readonly pool?: PoolState;
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
      slots: pluginsOn(view).map((plugin) => {
        const { name } = view.record;
        const said = records.attachLimit(plugin, name);
        const pool = records.slots.pool(name, said.pool);
        const used = records.slots.used(slotKey(plugin, name)) ?? 0;
        return { plugin, used, limit: said.limit, ...(pool === undefined ? {} : { pool }) };
      }),
    }),
    count: (views) =>
      records.slots.recount(
        views.flatMap((view) => {
          const { name } = view.record;
          const counted = pluginsOn(view).flatMap((plugin) =>
            countedSlots(plugin, name, records.attachLimit(plugin, name).pool),
          );
          return [...new Set(counted)];
        }),
      ),
    namesAfter: index.namesAfter,
  };
};
