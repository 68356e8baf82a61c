import type { VolumeRecord } from "../domain/records.ts";
import type { MountEntry } from "../ports.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { lookAt } from "./mounted.ts";
import type { NodeParts } from "./node-parts.ts";
import { messageOf } from "./taking-back.ts";

/**
 * At the start, before the first call. Only what no call of the orchestrator would find: a filesystem that a killed life left frozen, a
 * loop device that nothing uses. What a reboot took away is left to the orchestrator's calls, and only said. One volume in trouble keeps
 * no other from being served.
 */
export async function recover(parts: NodeParts, signal: AbortSignal): Promise<readonly string[]> {
  const { host } = parts;
  const table = await host.mounts.table();
  const did: string[] = [];
  const records = host.state.volumes.all();
  for (let at = 0; at < records.length; at += together) {
    const turn = records.slice(at, at + together).map((record) => recoverOrSay(parts, record, table, signal));
    for (const each of await Promise.allSettled(turn))
      if (each.status === "fulfilled") did.push(...each.value);
      else throw each.reason;
  }
  return did;
}

/** A child for each mounted image, and there may be hundreds. */
const together = 16;

async function recoverOrSay(
  parts: NodeParts,
  record: VolumeRecord,
  table: readonly MountEntry[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    return await recoverVolume(parts, record, table, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return [`volume ${record.id} (${record.name}): ${messageOf(error)}`];
  }
}

async function recoverVolume(
  parts: NodeParts,
  record: VolumeRecord,
  table: readonly MountEntry[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { host } = parts;
  const named = `volume ${record.id} (${record.name})`;
  const did: string[] = [];
  const mounted = await lookAt(parts, record, table);
  for (const loop of mounted.loops) {
    const [filesystem] = mounted.filesystemsOn(loop);
    if (filesystem !== undefined) await host.freezer.thaw(filesystem.mountPoint, signal);
  }
  for (const { device } of await letGoOfIdleLoops(parts, record, mounted, signal))
    did.push(`${named}: let go of ${device}, which nothing used`);
  const gone = async (path: string) => mounted.at(await host.places.resolve(path)).kind === "nothing";
  const { staging } = record;
  if (staging?.capability.access === "mount" && (await gone(staging.path)))
    did.push(
      `${named}: it was staged at ${staging.path}, where nothing is mounted now; NodeStageVolume mounts it again`,
    );
  for (const { path } of record.publications)
    if (await gone(path))
      did.push(
        `${named}: it was published at ${path}, where nothing is mounted now; NodePublishVolume mounts it again`,
      );
  return did;
}
