/** A part of the composition root: the gate of the store, with what it compares inventories with. */
import { createStoreGate, type StoreGateOptions, type VettedStoreGate } from "./gate/store-gate.ts";
import { noteForeignHolds } from "./reconcile/node/foreign-holds.ts";
import type { VolumeRecords } from "./records/volume/volume-records.ts";

export interface GateWiring extends Omit<StoreGateOptions, "volumes"> {
  readonly records: VolumeRecords;
}

export const wireGate = ({ records, ...parts }: GateWiring): VettedStoreGate =>
  createStoreGate({
    ...parts,
    volumes: {
      read: async (refs) => (await records.getMany(refs)).map((found) => found?.volume),
      ended: async (life) => (await records.ended(life)) !== undefined,
      noteForeign: (node, inventory) => noteForeignHolds({ records, log: parts.log }, node, inventory),
      none: async () => (await records.list("volume-all", "all", { limit: 1, whole: true })).volumes.length === 0,
    },
  });
