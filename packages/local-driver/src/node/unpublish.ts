import type { PublishInput } from "../operations.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { publicationAt } from "./live-publications.ts";
import { lookAt } from "./mounted.ts";
import { type NodeParts, refusal, volumeOf } from "./node-parts.ts";
import { forgetTarget } from "./targets.ts";
import { unmount } from "./unmount.ts";

/**
 * NodeUnpublishVolume: unmount, let go of the device, remove the target, forget. In this order: whatever fails can be asked again.
 * A target that the record does not know was not made here: a mount of this volume goes, the path stays.
 */
export async function unpublish(
  parts: NodeParts,
  input: Pick<PublishInput, "volumeId" | "targetPath">,
  signal: AbortSignal,
): Promise<void> {
  const { host } = parts;
  const record = volumeOf(parts, input.volumeId);
  const target = await host.places.resolve(input.targetPath);
  const publication = await publicationAt(parts, record, target);
  const mounted = await lookAt(parts, record);
  if (publication === undefined) {
    if (mounted.at(target).kind === "nothing") return;
    if (record.staging !== undefined && (await host.places.resolve(record.staging.path)) === target)
      throw refusal(
        parts,
        record,
        "FAILED_PRECONDITION",
        `${target} is its staging path, and no target; call NodeUnstageVolume for it`,
      );
  }
  const after = await unmount(parts, record, target, mounted, signal);
  await letGoOfIdleLoops(parts, record, after, signal);
  if (publication === undefined) return;
  // "The SP MUST delete the file or directory it created at this path."
  await host.places.remove(target);
  await forgetTarget(parts, record, publication.path);
}
