import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import type { SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { ContentPaths, Host } from "../ports.ts";

type Looking = Pick<Host, "state" | "images" | "places">;
type Holder = VolumeRecord | SnapshotRecord;

export const pathsOf = ({ state }: Pick<Host, "state">, record: Holder): ContentPaths =>
  record.kind === "volume" ? state.volumes.paths(record.id) : state.snapshots.paths(record.id);

export const bytesOf = (record: Holder): bigint => (record.kind === "volume" ? record.capacityBytes : record.sizeBytes);

/** What is wrong with the contents of a volume or snapshot; undefined: they are there, and as large as they should be. */
export async function faultOf(host: Looking, record: Holder): Promise<string | undefined> {
  const { data, image } = pathsOf(host, record);
  if (record.type === "directory") {
    if (await host.places.exists(data)) return undefined;
    return `its directory ${data} is gone; put it back from a backup, or delete the ${record.kind}`;
  }
  if (!(await host.places.exists(image)))
    return `its image ${image} is gone; put it back from a backup, or delete the ${record.kind}`;
  const found = await host.images.sizeOf(image);
  if (found >= bytesOf(record)) return undefined;
  return `its image ${image} has ${found} bytes instead of ${bytesOf(record)}: it was cut; put it back from a backup, or delete the ${record.kind}`;
}

/** Nothing is copied from or grown that is not whole: a cut image would be filled up with zeros and look sound from then on. */
export async function mustBeSound(host: Looking, record: Holder): Promise<void> {
  const fault = await faultOf(host, record);
  if (fault !== undefined) throw new DriverError("FAILED_PRECONDITION", `${nameOf(record)}: ${fault}`);
}
