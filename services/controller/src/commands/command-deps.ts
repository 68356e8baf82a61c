import type { Clock } from "@holdfast/shared/async/clock";
import type { ControllerPlugins, Ids, Nodes, SnapshotPlugins, Store, StoreGate } from "../ports.ts";
import type { CutRecords } from "../records/snapshot-records.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import type { SecretReferences } from "./secret/secret-model.ts";

/** What commands work with. */
export interface CommandDeps {
  readonly records: VolumeRecords;
  readonly nodes: Nodes;
  /** Snapshots and groups of them. */
  readonly cuts: CutRecords;
  readonly plugins: ControllerPlugins & SnapshotPlugins;
  readonly gate: StoreGate;
  /** The one order of all commits. */
  readonly feed: Pick<Store, "head" | "watch" | "format">;
  readonly secrets: SecretReferences;
  readonly clock: Clock;
  readonly ids: Ids;
}
