import type { FsType } from "./records.ts";

/**
 * Options that a user may ask a mount for: by mount_flags of a capability, or by the mutable parameter mountOptions. Whatever could cost
 * data (nobarrier, data=writeback), show it to others (dev, suid) or has a field of its own in CSI (ro) is not among them.
 */
const offered: Readonly<Record<string, readonly FsType[]>> = {
  noatime: ["ext4", "xfs"],
  nodiratime: ["ext4", "xfs"],
  relatime: ["ext4", "xfs"],
  strictatime: ["ext4", "xfs"],
  lazytime: ["ext4", "xfs"],
  nodev: ["ext4", "xfs"],
  noexec: ["ext4", "xfs"],
  nosuid: ["ext4", "xfs"],
  sync: ["ext4", "xfs"],
  dirsync: ["ext4", "xfs"],
  discard: ["ext4", "xfs"],
  nodiscard: ["ext4", "xfs"],
  "errors=remount-ro": ["ext4"],
  "errors=panic": ["ext4"],
  "data=journal": ["ext4"],
  "data=ordered": ["ext4"],
  largeio: ["xfs"],
  swalloc: ["xfs"],
};

export const offeredMountOptions: readonly string[] = Object.keys(offered);

/** The list that a mountOptions parameter stands for. */
export const mountOptionsIn = (text: string): readonly string[] =>
  text
    .split(",")
    .map((option) => option.trim())
    .filter((option) => option !== "");

/** Why this option cannot be had; undefined when it can. Without a filesystem: whether any has it. */
export function mountOptionProblem(option: string, fsType: FsType | undefined): string | undefined {
  const having = Object.hasOwn(offered, option) ? offered[option] : undefined;
  if (having === undefined)
    return `mount option ${JSON.stringify(option)} is not offered; there are ${offeredMountOptions.join(", ")}`;
  if (fsType === undefined || having.includes(fsType)) return undefined;
  return `mount option ${JSON.stringify(option)} is one of ${having.join(", ")}, and not of ${fsType}`;
}
