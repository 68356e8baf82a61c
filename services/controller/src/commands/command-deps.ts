import type { Clock } from "@holdfast/shared/async/clock";
import type { ControllerPlugins, Ids, Nodes, Store, StoreGate } from "../ports.ts";
import type { VolumeRecords } from "../records/volume-records.ts";
import type { SecretReferences } from "./secret-model.ts";

/** What commands work with. */
export interface CommandDeps {
  readonly records: VolumeRecords;
  readonly nodes: Nodes;
  readonly plugins: ControllerPlugins;
  readonly gate: StoreGate;
  /** The one order of all commits. */
  readonly feed: Pick<Store, "head" | "watch">;
  readonly secrets: SecretReferences;
  readonly clock: Clock;
  readonly ids: Ids;
}
