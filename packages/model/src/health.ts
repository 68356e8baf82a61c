/**
 * What a plugin says is wrong with a volume, or with the way from a node to the storage (CSI 1.13). A number that this version
 * of CSI does not name is kept and shown, and nothing acts on it.
 */
import type { AccessMode, AttachmentMode } from "./access.ts";

export type VolumeHealthStatus = "DEGRADED" | "INACCESSIBLE" | "DATA_LOSS" | Unrecognised;
export type StorageHealthStatus = "STORAGE_DEGRADED" | "STORAGE_UNREACHABLE" | Unrecognised;
type Unrecognised = `UNRECOGNISED(${number})`;

export interface HealthEntry<Status extends string> {
  readonly status: Status;
  /** A short word for machines and lists. */
  readonly reason: string;
  /** For people; may be empty. */
  readonly message: string;
}

export type VolumeHealthEntry = HealthEntry<VolumeHealthStatus>;

export interface StorageHealthEntry extends HealthEntry<StorageHealthStatus> {
  /** The uses that are affected; what is absent: every use. */
  readonly attachmentMode?: AttachmentMode;
  readonly fsType?: string;
  readonly accessMode?: AccessMode | Unrecognised;
}

/** A use of a volume that the entry is about. */
export const affects = (
  { attachmentMode, fsType, accessMode }: StorageHealthEntry,
  use: { readonly attachmentMode: AttachmentMode; readonly fsType: string; readonly accessMode: AccessMode },
): boolean =>
  (attachmentMode === undefined || attachmentMode === use.attachmentMode) &&
  // A claim that names no file system may get any.
  (fsType === undefined || use.fsType === "" || fsType === use.fsType) &&
  (accessMode === undefined || accessMode === use.accessMode);

const named =
  <Status extends string>(names: readonly Status[]) =>
  (status: number): Status | Unrecognised =>
    names[status - 1] ?? `UNRECOGNISED(${status})`;

const storageWord = /^(STORAGE_DEGRADED|STORAGE_UNREACHABLE|UNRECOGNISED\(-?\d+\))$/;

export const isStorageHealthStatus = (word: string): word is StorageHealthStatus => storageWord.test(word);

const statusWord = /^(DEGRADED|INACCESSIBLE|DATA_LOSS|UNRECOGNISED\(-?\d+\))$/;

export const isVolumeHealthStatus = (word: string): word is VolumeHealthStatus => statusWord.test(word);

/** By number, from 1. */
export const volumeHealthStatus = named(["DEGRADED", "INACCESSIBLE", "DATA_LOSS"]);
export const storageHealthStatus = named(["STORAGE_DEGRADED", "STORAGE_UNREACHABLE"]);

/** "MUST NOT return multiple entries with the same (status, reason)": of those that come all the same the first counts. */
export function withoutRepeats<E>(entries: readonly E[], keyOf: (entry: E) => readonly unknown[]): E[] {
  const seen = new Set<string>();
  return entries.filter((entry) => {
    const key = JSON.stringify(keyOf(entry));
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** "INACCESSIBLE (PathsLost): no path is left": for people, entry by entry. */
export const healthText = (entries: readonly HealthEntry<string>[]): string =>
  entries
    .map(({ status, reason, message }) => `${status} (${reason})${message === "" ? "" : `: ${message}`}`)
    .join("; ");
