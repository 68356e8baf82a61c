import type { Publication, VolumeRecord } from "../domain/records.ts";
import type { NodeParts } from "./node-parts.ts";

export async function rememberTarget(
  { host }: NodeParts,
  record: VolumeRecord,
  publication: Publication,
): Promise<void> {
  await host.state.volumes.change(record.id, (before) => ({
    ...before,
    publications: [...before.publications, publication],
  }));
}

export async function forgetTarget({ host }: NodeParts, record: VolumeRecord, path: string): Promise<void> {
  await host.state.volumes.change(record.id, (before) => ({
    ...before,
    publications: before.publications.filter((publication) => publication.path !== path),
  }));
}
