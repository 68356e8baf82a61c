/**
 * How much may still be promised on this disk. Images are sparse: what they have not yet taken of their size is owed to them, and a
 * workload that cannot get it sees I/O errors long after CreateVolume said yes.
 *
 * Q1 available = free bytes − what existing images are owed − what is promised to volumes being made.
 * Q2 Two calls at once never promise the same bytes: a promise counts for every sum that was being made while it existed.
 * Q3 Where there is room for whatever all images together may still grow to, no file is looked at.
 * Q4 On a disk with reflinks a copy shares its blocks with its source, and both count as allocated: of a copy nothing counts as its own.
 */
import { DriverError } from "../domain/driver-error.ts";
import { greatest } from "../domain/image-size.ts";
import type { SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";

export interface Room {
  availableBytes(): Promise<bigint>;
  /** RESOURCE_EXHAUSTED when there is less. What is answered gives the promise back: call it when the record is stored, or never will be. */
  promise(bytes: bigint): Promise<() => void>;
}

interface Promised {
  readonly bytes: bigint;
}

/** Files looked at side by side. */
const atOnce = 16;

export function createRoom({ host }: { readonly host: Pick<Host, "state" | "space" | "copier"> }): Room {
  const promised = new Set<Promised>();
  const sums = new Set<Set<Promised>>();

  const owedTo = async (record: VolumeRecord | SnapshotRecord, reflinks: boolean): Promise<bigint> => {
    if (record.type === "directory") return 0n;
    // Never written again: what a snapshot has not taken it will not take; what it shares is owed to whoever overwrites its side.
    if (record.kind === "snapshot") return reflinks ? await allocated(host.state.snapshots.paths(record.id).image) : 0n;
    if (reflinks && record.source !== undefined) return record.capacityBytes; // Q4
    return greatest(0n, record.capacityBytes - (await allocated(host.state.volumes.paths(record.id).image)));
  };
  /** A missing image is its volume's condition, and no reason to refuse others; as it takes nothing, all of its size counts as owed. */
  const allocated = (image: string): Promise<bigint> => host.space.allocatedBytes(image).catch(() => 0n);

  /** As if images had taken nothing of their size yet. */
  const mostOwed = (): bigint => {
    let sum = 0n;
    for (const { type, capacityBytes } of host.state.volumes.all()) if (type === "image") sum += capacityBytes;
    for (const { type, sizeBytes } of host.state.snapshots.all()) if (type === "image") sum += sizeBytes;
    return sum;
  };

  const owed = async (): Promise<bigint> => {
    // A disk too full to try is counted as the worse of the two.
    const reflinks = await host.copier.reflinks().catch(() => true);
    const records = [...host.state.volumes.all(), ...host.state.snapshots.all()];
    let sum = 0n;
    for (let at = 0; at < records.length; at += atOnce) {
      const some = records.slice(at, at + atOnce);
      for (const bytes of await Promise.all(some.map((record) => owedTo(record, reflinks)))) sum += bytes;
    }
    return sum;
  };

  /** `decide` runs in the same turn in which the sum is complete. (Q2) */
  const decideOn = async <T>(decide: (available: bigint) => T): Promise<T> => {
    const seen = new Set(promised);
    sums.add(seen);
    try {
      const debt = await owed();
      const free = await host.space.freeBytes();
      let rest = free - debt;
      for (const each of seen) rest -= each.bytes;
      return decide(greatest(0n, rest)); // Q1
    } finally {
      sums.delete(seen);
    }
  };

  const promise = (bytes: bigint): (() => void) => {
    const mine: Promised = { bytes };
    promised.add(mine);
    for (const seen of sums) seen.add(mine); // Q2
    return () => {
      promised.delete(mine);
    };
  };

  return {
    availableBytes: () => decideOn((available) => available),
    promise: async (bytes) => {
      // What is free now counts against what is owed in the same turn: who wrote in between was owed it. (Q2)
      let easily = (await host.space.freeBytes()) - mostOwed();
      for (const each of promised) easily -= each.bytes;
      if (bytes <= easily) return promise(bytes); // Q3
      return await decideOn((available) => {
        if (bytes <= available) return promise(bytes);
        throw new DriverError(
          "RESOURCE_EXHAUSTED",
          `${bytes} bytes are needed, and ${available} are free and not owed to other volumes; delete volumes or snapshots, or enlarge the disk of the state directory`,
        );
      });
    },
  };
}
