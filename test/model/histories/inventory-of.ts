/** What an agent tells of what it holds, in the words of the wire. */
import { InventoryVolume } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import { inventoryVolume } from "../../../services/controller/src/nodes/convert.ts";
import { inventoryVolumeMessage } from "../../../services/node-agent/src/api/convert.ts";
import type { Host } from "./history-types.ts";

const at = new Date(0);

export const inventoryOf = ({ name, journal, nodeEpoch, volume, mounted }: Host): Inventory => {
  const told = volume === undefined ? undefined : inventoryVolumeMessage({ state: volume }, at).volume;
  return {
    node: name,
    journalUid: journal,
    nodeEpoch,
    volumes: told === undefined ? [] : [inventoryVolume(InventoryVolume.fromPartial(told))],
    // A mount that the journal does not explain.
    orphans: mounted.filter((uid) => volume?.claims[uid] === undefined).map((uid) => `/${uid}`),
  };
};
