import { expect } from "vitest";
import type { Journal } from "../volumes/journal.ts";

/** What survives a crash, and the journal of one life over it. */
export interface JournalDisk {
  readonly uid: string;
  readonly records: unknown[];
  /** How many of them a loss of power takes with it: as many as a disk that syncs as late as it may has not taken yet. */
  unsynced: number;
  syncs: number;
  /** Set: there is room for releases only. */
  fullBecause?: string;
  /** Set: there is room for nothing. */
  waitsBecause?: string;
}

export const createJournalDisk = (uid: string): JournalDisk => ({ uid, records: [], unsynced: 0, syncs: 0 });

export const losePower = (disk: JournalDisk): void => {
  disk.records.splice(disk.records.length - disk.unsynced);
  disk.unsynced = 0;
};

export interface MemoryJournal extends Journal {
  /** From now on nothing reaches the disk and nobody is answered: the process is gone. */
  crash(): void;
}

export function openMemoryJournal(disk: JournalDisk): MemoryJournal {
  let dead = false;
  return {
    uid: disk.uid,
    damage: undefined,
    records: structuredClone(disk.records),
    async append(records, survival, safe) {
      await Promise.resolve();
      if (dead) return new Promise(() => undefined);
      // Whatever is journalled has to survive being written down.
      const written = JSON.parse(JSON.stringify(records)) as unknown[];
      expect(written).toEqual(records);
      disk.records.push(...written);
      // What was written before is synced before this is.
      disk.unsynced = survival === "host" ? 0 : written.length;
      disk.syncs += 1;
      safe();
    },
    rewriteFrom: () => undefined,
    rewrite: () => Promise.resolve(),
    fullBecause: () => disk.fullBecause,
    waitsBecause: () => disk.waitsBecause,
    syncs: () => disk.syncs,
    bytes: () => 0,
    close: () => Promise.resolve(),
    crash() {
      dead = true;
    },
  };
}
