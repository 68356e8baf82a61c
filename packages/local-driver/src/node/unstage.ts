import type { VolumeRecord } from "../domain/records.ts";
import type { StageInput } from "../operations.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { livePublications } from "./live-publications.ts";
import { describeMount, lookAt, type Mounted, usersOf } from "./mounted.ts";
import { type NodeParts, refusal, volumeOf } from "./node-parts.ts";
import { unmount } from "./unmount.ts";

/** NodeUnstageVolume. The record forgets the staging last: whatever fails before can be asked again. */
export async function unstage(
  parts: NodeParts,
  input: Pick<StageInput, "volumeId" | "stagingPath">,
  signal: AbortSignal,
): Promise<void> {
  const { host } = parts;
  const record = volumeOf(parts, input.volumeId);
  const path = await host.places.resolve(input.stagingPath);
  const { staging } = record;
  const recorded = staging !== undefined && (await host.places.resolve(staging.path)) === path;
  const mounted = await lookAt(parts, record);
  const here = mounted.at(path);
  if (!recorded && (here.kind === "nothing" || here.kind === "foreign")) {
    // "If the volume corresponding to the volume_id is not staged to the staging_target_path, the Plugin MUST reply 0 OK."
    if (staging === undefined) await letGoOfIdleLoops(parts, record, mounted, signal);
    return;
  }
  await refusePublished(parts, record, mounted);
  const after = await unmount(parts, record, path, mounted, signal);
  await letGoOfIdleLoops(parts, record, after, signal);
  refuseStillUsed(parts, record, after);
  if (recorded) await host.state.volumes.change(record.id, (before) => ({ ...before, staging: undefined }));
}

/** What a reboot unpublished stays recorded until NodeUnpublishVolume, and hinders nothing. */
async function refusePublished(parts: NodeParts, record: VolumeRecord, mounted: Mounted): Promise<void> {
  const live = await livePublications(parts, record, mounted);
  if (live.length === 0) return;
  const targets = live.map(({ path }) => path).join(", ");
  throw refusal(
    parts,
    record,
    "FAILED_PRECONDITION",
    `it is published at ${targets}; call NodeUnpublishVolume for each target first`,
  );
}

function refuseStillUsed(parts: NodeParts, record: VolumeRecord, mounted: Mounted): void {
  const users = mounted.loops.flatMap((loop) => usersOf(mounted, loop));
  if (users.length === 0) return;
  const where = users.map(describeMount).join(", ");
  throw refusal(
    parts,
    record,
    "FAILED_PRECONDITION",
    `it was unmounted from its staging path, and is still in use at ${where}, which this driver did not make; unmount that, and ask again`,
  );
}
