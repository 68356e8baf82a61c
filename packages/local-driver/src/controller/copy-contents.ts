import type { SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { ContentPaths, Host } from "../ports.ts";
import { pathsOf } from "./sound-image.ts";

/** The contents of a volume or snapshot into a place of their own. */
export async function copyContents(
  host: Pick<Host, "state" | "copier">,
  from: VolumeRecord | SnapshotRecord,
  to: ContentPaths,
  signal: AbortSignal,
): Promise<void> {
  const source = pathsOf(host, from);
  if (from.type === "image") await host.copier.image(source.image, to.image, signal);
  else await host.copier.tree(source.data, to.data, signal);
}
