import type { DriverSettings } from "../operations.ts";
import type { Host } from "../ports.ts";
import type { CutSnapshots } from "./cut-snapshots.ts";
import type { Room } from "./room.ts";

/** What the operations of the controller are made of. */
export interface ControllerParts {
  readonly host: Host;
  readonly settings: DriverSettings;
  readonly room: Room;
  readonly cut: CutSnapshots;
}
