/** A part of the composition root: the gate of the store, with what it compares inventories with. */
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { knownCalls } from "./gate/known-calls.ts";
import { createStoreGate, type StoreGateOptions, type VettedStoreGate } from "./gate/store-gate.ts";
import type { Ids } from "./ports.ts";
import { noteForeignHolds } from "./reconcile/node/foreign-holds.ts";
import type { CutRecords } from "./records/snapshot-records.ts";
import type { VolumeRecords } from "./records/volume/volume-records.ts";

export interface GateWiring extends Omit<StoreGateOptions, "volumes" | "knownCalls" | "openCalls" | "uuid"> {
  readonly records: VolumeRecords;
  readonly cuts: CutRecords;
  readonly directory: Pick<PluginDirectory, "openCalls">;
  readonly ids: Pick<Ids, "uuid">;
}

export const wireGate = ({ records, cuts, directory, ids, ...parts }: GateWiring): VettedStoreGate =>
  createStoreGate({
    ...parts,
    openCalls: directory.openCalls,
    uuid: ids.uuid,
    knownCalls: () => knownCalls(records, cuts),
    volumes: {
      read: async (refs) => (await records.getMany(refs)).map((found) => found?.volume),
      ended: async (life) => (await records.ended(life)) !== undefined,
      noteForeign: (node, inventory) => noteForeignHolds({ records, log: parts.log }, node, inventory),
      none: async () => (await records.list("volume-all", "all", { limit: 1, whole: true })).volumes.length === 0,
    },
  });
