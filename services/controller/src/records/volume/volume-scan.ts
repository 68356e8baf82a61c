/** Reads of many volumes, past what is remembered: a scan must not drive the volumes in use out of memory. */

import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { createDamagedRecords } from "../damaged-records.ts";
import { pagesOf } from "../pages-of.ts";
import {
  decodeVolume,
  decodeVolumeTombstone,
  externalValue,
  goneExternal,
  type Storage,
  type VolumeIndex,
  type VolumeTombstone,
} from "./volume-codec.ts";

export interface VolumeScan {
  /** All of one plugin, a page at a time. */
  pages(plugin: string): AsyncGenerator<readonly VolumeRecord[]>;
  /** What is left of the last volume that stood for the storage; undefined = none did within seven days. */
  lastOwner(storage: Storage): Promise<VolumeTombstone | undefined>;
  /** A volume of the plugin whose CreateVolume may have made storage that no record knows by its id yet. */
  beingMade(plugin: string): Promise<VolumeRecord | undefined>;
}

const pageSize = 200;
/** Beyond so many unsettled volumes the answer is the careful one. */
const maxUnsettledPages = 50;

const mayHaveMade = ({ name, externalId, state, intent }: VolumeRecord): boolean =>
  name !== "" && externalId === "" && (state === "CREATING" || intent !== undefined);

/** The answer of each is a proof of absence too: one damaged record in the way of it, and there is none. */
export const createVolumeScan = (store: Pick<Store, "list">, damages = createDamagedRecords()): VolumeScan => {
  const pages = async function* (index: VolumeIndex, value: string): AsyncGenerator<readonly VolumeRecord[]> {
    for await (const { records } of pagesOf((after) => store.list({ index, value, limit: pageSize, after })))
      yield damages.readEach(records, decodeVolume, true);
  };

  return {
    pages: (plugin) => pages("volume-plugin", plugin),

    async lastOwner({ plugin, externalId }) {
      const { records } = await store.list({
        index: goneExternal,
        value: externalValue(plugin, externalId),
        limit: 10,
      });
      return damages.readEach(records, decodeVolumeTombstone, true).toSorted((a, b) => b.deletedAt - a.deletedAt)[0];
    },

    async beingMade(plugin) {
      for (const index of ["volume-unsettled", "volume-blocked"] as const) {
        let read = 0;
        for await (const volumes of pages(index, "all")) {
          const found = volumes.find((v) => v.plugin === plugin && mayHaveMade(v));
          read += 1;
          if (found !== undefined) return found;
          if (read >= maxUnsettledPages) return volumes[0];
        }
      }
      return undefined;
    },
  };
};
