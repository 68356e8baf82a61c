/** What a program of this host needs of controllers beside claims: volumes that are made, deleted and found for it. */
import type { WantedVolume } from "../domain/wanted-volume.ts";

export interface VolumeHolder {
  readonly workload: string;
  readonly node: string;
  /** Why nothing is heard of its node; empty while that answers. */
  readonly nodeLost: string;
}

export interface FoundVolume {
  readonly id: string;
  readonly plugin: string;
  readonly state: "CREATING" | "AVAILABLE" | "DELETING" | "FAILED";
  readonly bytes: bigint;
  /** Why it is FAILED or blocked, or does not grow. */
  readonly trouble: string;
  readonly createdAt: number;
  readonly holders: readonly VolumeHolder[];
}

/** Rejects with CONTROLLER_UNAVAILABLE when no controller answered: what was asked may have happened then, and may be asked again. */
export interface HostVolumes {
  /** Answered when it is made or refused, has to wait for its first mount, or the wait is over. */
  make(volume: WantedVolume, waitMs: number, signal: AbortSignal): Promise<FoundVolume>;
  /** Of a volume that the same kind of program made; one that is gone is OK. */
  remove(id: string, waitMs: number, signal: AbortSignal): Promise<void>;
  find(id: string, deadlineMs: number, signal: AbortSignal): Promise<FoundVolume | undefined>;
  list(signal: AbortSignal): Promise<readonly FoundVolume[]>;
}
