import type { VolumeRecord } from "../domain/records.ts";
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
}

const nothing: VolumeUses = { mounts: [], loops: [], rawTargets: [], rawReaders: [] };

type Looking = Pick<Host, "state" | "loops" | "mounts" | "places">;

export async function usesOf(host: Looking, volume: VolumeRecord): Promise<VolumeUses> {
  const { data, image } = host.state.volumes.paths(volume.id);
  return volume.type === "directory" ? await usesOfDirectory(host, data) : await usesOfImage(host, image);
}

async function usesOfDirectory(host: Looking, data: string): Promise<VolumeUses> {
  if (!(await host.places.exists(data))) return nothing;
  const own = await host.mounts.identityOf(data);
  const table = await host.mounts.table();
  const inside = ({ dev, root }: MountEntry) =>
    dev === own.dev && (root === own.root || root.startsWith(`${own.root}/`));
  return { ...nothing, mounts: table.filter(inside) };
}

async function usesOfImage(host: Looking, image: string): Promise<VolumeUses> {
  const loops = await host.loops.of(image);
  if (loops.length === 0) return nothing;
  const nodes = await Promise.all(
    loops.map(async ({ device, readonly }) => ({ ...(await host.mounts.identityOf(device)), readonly })),
  );
  const table = await host.mounts.table();
  const bindsOf = (wanted: boolean) =>
    table.filter(({ dev, root }) =>
      nodes.some((node) => node.readonly === wanted && node.dev === dev && node.root === root),
    );
  return {
    mounts: table.filter(({ dev }) => loops.some((loop) => loop.dev === dev)),
    loops,
    rawTargets: bindsOf(false),
    rawReaders: bindsOf(true),
  };
}

export const placesOf = (entries: readonly MountEntry[]): string =>
  [...new Set(entries.map(({ mountPoint }) => mountPoint))].join(", ");
