import { bindsOfNode } from "../binds-of-node.ts";
import type { Publication, Staging, VolumeRecord } from "../domain/records.ts";
import type { Host, LoopDevice, MountEntry } from "../ports.ts";

/** What the kernel has of a volume at this moment, whatever its record says. */
export interface VolumeUses {
  /** Of its filesystem, or binds of its directory or of something in it. */
  readonly mounts: readonly MountEntry[];
  /** Of an image. */
  readonly loops: readonly LoopDevice[];
  /** Binds of the node of its writable loop device: a workload has the raw device. A read-only bind does not stop writes. */
  readonly rawTargets: readonly MountEntry[];
  /** Binds of the node of its read-only loop device. */
  readonly rawReaders: readonly MountEntry[];
  /**
   * What is mounted where its record has the image staged or published, and is of no loop device of that image: the image may be used
   * through a device that is not found (another file took its name), or the place is another's.
   */
  readonly strangers: readonly MountEntry[];
}

const nothing: VolumeUses = { mounts: [], loops: [], rawTargets: [], rawReaders: [], strangers: [] };

type Looking = Pick<Host, "state" | "loops" | "mounts" | "places">;

export async function usesOf(host: Looking, volume: VolumeRecord): Promise<VolumeUses> {
  const { data, image } = host.state.volumes.paths(volume.id);
  return volume.type === "directory" ? await usesOfDirectory(host, data) : await usesOfImage(host, volume, image);
}

async function usesOfDirectory(host: Looking, data: string): Promise<VolumeUses> {
  if (!(await host.places.exists(data))) return nothing;
  const own = await host.mounts.identityOf(data);
  const table = await host.mounts.table();
  const inside = ({ dev, root }: MountEntry) =>
    dev === own.dev && (root === own.root || root.startsWith(`${own.root}/`));
  return { ...nothing, mounts: table.filter(inside) };
}

async function usesOfImage(host: Looking, volume: VolumeRecord, image: string): Promise<VolumeUses> {
  const loops = await host.loops.of(image);
  const places = new Set<string>();
  for (const { path } of recordedUses(volume)) places.add(await host.places.resolve(path));
  if (loops.length === 0 && places.size === 0) return nothing;
  const table = await host.mounts.table();
  const rawTargets: MountEntry[] = [];
  const rawReaders: MountEntry[] = [];
  for (const loop of loops)
    (loop.readonly ? rawReaders : rawTargets).push(...(await bindsOfNode(host.mounts, table, loop)));
  const mounts = table.filter(({ dev }) => loops.some((loop) => loop.dev === dev));
  const own = new Set([...mounts, ...rawTargets, ...rawReaders]);
  const strangers = table.filter((entry) => places.has(entry.mountPoint) && !own.has(entry));
  return { mounts, loops, rawTargets, rawReaders, strangers };
}

/** Of a record that may be older than the last start of the machine. */
export const recordedUses = ({ staging, publications }: VolumeRecord): readonly (Staging | Publication)[] => [
  ...(staging === undefined ? [] : [staging]),
  ...publications,
];

export const placesOf = (entries: readonly MountEntry[]): string =>
  [...new Set(entries.map(({ mountPoint }) => mountPoint))].join(", ");
