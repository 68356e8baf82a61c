import { type CsiCode, DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { DriverSettings } from "../operations.ts";
import type { Host } from "../ports.ts";

/** What every operation of a node is given. */
export interface NodeParts {
  readonly host: Host;
  readonly settings: DriverSettings;
  /** What taking back after a failure may take: the caller's own deadline may be what failed it. */
  readonly undoMs: number;
}

/** Names the volume and the node; `text` says what was found and what to do. */
export const refusal = (
  { settings }: Pick<NodeParts, "settings">,
  record: Pick<VolumeRecord, "id" | "name">,
  code: CsiCode,
  text: string,
): DriverError => new DriverError(code, `volume ${record.id} (${record.name}) on node ${settings.nodeId}: ${text}`);

export function volumeOf({ host, settings }: NodeParts, id: string): VolumeRecord {
  const record = host.state.volumes.get(id);
  // "Volume does not exist: 5 NOT_FOUND"
  if (record === undefined)
    throw new DriverError("NOT_FOUND", `volume ${id} on node ${settings.nodeId}: there is no such volume`);
  return record;
}
