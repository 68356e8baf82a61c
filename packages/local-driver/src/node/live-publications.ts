import type { Publication, VolumeRecord } from "../domain/records.ts";
import type { Mounted } from "./mounted.ts";
import type { NodeParts } from "./node-parts.ts";

/** Those recorded ones that are true in the kernel: a reboot takes the mounts away and leaves the record. */
export async function livePublications(
  { host }: NodeParts,
  record: VolumeRecord,
  mounted: Mounted,
): Promise<readonly Publication[]> {
  const live: Publication[] = [];
  for (const publication of record.publications) {
    const { kind } = mounted.at(await host.places.resolve(publication.path));
    if (kind === "volume" || kind === "device") live.push(publication);
  }
  return live;
}

/** By the place, however it is spelled. */
export async function publicationAt(
  { host }: NodeParts,
  record: VolumeRecord,
  path: string,
): Promise<Publication | undefined> {
  for (const publication of record.publications)
    if (publication.path === path || (await host.places.resolve(publication.path)) === path) return publication;
  return undefined;
}
