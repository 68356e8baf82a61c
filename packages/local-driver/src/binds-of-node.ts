import type { LoopDevice, MountEntry, Mounts } from "./ports.ts";

interface Identity {
  readonly dev: string;
  readonly root: string;
}

/** Of a root that was deleted under its mounts the kernel still tells the path. */
export const isOf = (entry: MountEntry, { dev, root }: Identity): boolean =>
  entry.dev === dev && (entry.root === root || entry.root === `${root}//deleted`);

/**
 * Binds of this device's node. By its numbers, since a container that was started again has another /dev, whose nodes are others; a bind
 * that another mount hides is known only when it is of the present /dev.
 */
export async function bindsOfNode(
  mounts: Pick<Mounts, "identityOf" | "deviceAt">,
  table: readonly MountEntry[],
  { device, dev }: LoopDevice,
): Promise<readonly MountEntry[]> {
  const named = table.filter((entry) => mayBeNode(entry, device));
  if (named.length === 0) return [];
  const node = await mounts.identityOf(device);
  const found: MountEntry[] = [];
  for (const entry of named) if (isOf(entry, node) || (await mounts.deviceAt(entry)) === dev) found.push(entry);
  return found;
}

const mayBeNode = (entry: MountEntry, device: string): boolean =>
  entry.root.replace("//deleted", "").endsWith(device.slice(device.lastIndexOf("/")));
