/**
 * What is true in the kernel for one volume, at the time of the look. A mount is this volume's by its device numbers and root, never by
 * its name or by what a record says of the path: a record may name what a reboot took away, and anyone can mount anything anywhere.
 */

import { bindsOfNode, isOf } from "../binds-of-node.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { LoopDevice, MountEntry } from "../ports.ts";
import type { NodeParts } from "./node-parts.ts";

export type Here =
  | { readonly kind: "nothing" }
  /** The volume's directory, or the filesystem in its image. */
  | { readonly kind: "volume"; readonly entry: MountEntry; readonly readonly: boolean }
  /** The volume's device node. A read-only mount of it would not stop writes: the loop device must be. */
  | { readonly kind: "device"; readonly entry: MountEntry; readonly loop: LoopDevice; readonly readonly: boolean }
  | { readonly kind: "foreign"; readonly entry: MountEntry };

export interface Mounted {
  /** Of the image; none for a directory. */
  readonly loops: readonly LoopDevice[];
  /** `path` as the mount table spells it. Foreign when anything there is, below or on top. */
  at(path: string): Here;
  /** Mounts of the filesystem that this device carries, wherever they are. */
  filesystemsOn(loop: LoopDevice): readonly MountEntry[];
  /** Binds of this device's node. */
  bindsOf(loop: LoopDevice): readonly MountEntry[];
}

/** With a `table` at hand that is fresh enough it is not read again. */
export async function lookAt(parts: NodeParts, record: VolumeRecord, known?: readonly MountEntry[]): Promise<Mounted> {
  const { loops: devices, mounts, state } = parts.host;
  const { image, data } = state.volumes.paths(record.id);
  const loops = record.type === "image" ? await devices.of(image) : [];
  const table = known ?? (await mounts.table());
  const directory = record.type === "directory" ? await mounts.identityOf(data) : undefined;
  const nodes = new Map<string, ReadonlySet<MountEntry>>();
  for (const loop of loops) nodes.set(loop.device, new Set(await bindsOfNode(mounts, table, loop)));

  const filesystemsOn = (loop: LoopDevice) => table.filter((entry) => entry.dev === loop.dev);
  const bindsOf = ({ device }: LoopDevice) => table.filter((entry) => nodes.get(device)?.has(entry));
  const readsOnly = (entry: MountEntry) => entry.options.includes("ro");
  const what = (entry: MountEntry): Here => {
    if (
      (directory !== undefined && isOf(entry, directory)) ||
      loops.some((loop) => isOf(entry, { dev: loop.dev, root: "/" }))
    )
      return { kind: "volume", entry, readonly: readsOnly(entry) };
    const loop = loops.find((each) => bindsOf(each).includes(entry));
    return loop === undefined ? { kind: "foreign", entry } : { kind: "device", entry, loop, readonly: loop.readonly };
  };

  return {
    loops,
    filesystemsOn,
    bindsOf,
    at: (path) => {
      // Two lines of one volume are not two mounts of ours: propagation shows one mount twice.
      const found = table.filter(({ mountPoint }) => mountPoint === path).map(what);
      return found.find(({ kind }) => kind === "foreign") ?? found.at(-1) ?? { kind: "nothing" };
    },
  };
}

/** What keeps a device in use. */
export const usersOf = (mounted: Mounted, loop: LoopDevice): readonly MountEntry[] => [
  ...mounted.filesystemsOn(loop),
  ...mounted.bindsOf(loop),
];

/** An exit code proves nothing; the table does. */
export const notThere = (path: string, here: Here): string =>
  `the mount at ${path} was said to be made, and the mount table shows ${here.kind === "nothing" ? "nothing" : describeMount(here.entry)} there; call again`;

export const describeMount = ({ mountPoint, source, fsType, dev, root }: MountEntry): string =>
  `${mountPoint} (${fsType} from ${source}, device ${dev}, root ${root})`;
