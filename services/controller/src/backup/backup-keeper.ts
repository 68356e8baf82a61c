/**
 * Writes backups by itself, and removes old ones.
 *
 * K1 Nothing is written of a store that is not vetted: what it has forgotten would look as if it had been removed. K2 A backup is removed
 * only when as many younger ones as are to be kept are there, and none before the youngest was read back. K3 A backup that cannot be made
 * costs a line in the log and a figure, and nothing else: it is tried again. K4 A clock that was set back makes no file that is older than
 * those that are there.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoredRecord } from "../domain/store-types.ts";
import type { StoreGate } from "../ports.ts";
import type { ExportSource } from "../store/export-source.ts";
import type { BackupFiles } from "./backup-files.ts";
import { type BackupOwner, backupName, backupsOf, type NamedBackup } from "./backup-name.ts";
import { unfinished, writeBackup } from "./write-backup.ts";

export interface BackupKeeperDeps {
  readonly files: BackupFiles;
  readonly openSource: () => Promise<ExportSource>;
  readonly gate: StoreGate;
  readonly owner: BackupOwner;
  readonly intervalMs: number;
  /** Of this controller. */
  readonly keep: number;
  /** Throws for a record that its users could not read. */
  readonly judge: (record: StoredRecord) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface BackupStanding {
  /** Since the last good backup, or since the start of a controller that has none. */
  readonly ageMs: number;
  readonly failures: number;
}

export interface BackupKeeper {
  standing(): BackupStanding;
  /** Until the signal; rejects then. */
  run(): Promise<never>;
}

const longestRetryMs = 60_000;
/** Beside the file itself, so that a full disk is seen before it is full. */
const spareBytes = 16 * 1024 * 1024;

export const createBackupKeeper = (deps: BackupKeeperDeps): BackupKeeper => {
  const { files, openSource, gate, owner, intervalMs, keep, judge, clock, log, signal } = deps;
  let youngest = { before: 0, since: clock.monotonic() };
  let failures = 0;

  const own = async (): Promise<readonly NamedBackup[]> => backupsOf(owner, await files.list());

  const refuseWithoutRoom = async (last: NamedBackup | undefined): Promise<void> => {
    const needed = spareBytes + (last === undefined ? 0 : 2 * (await files.size(last.name)));
    const room = await files.room();
    if (room >= needed) return;
    throw new HoldfastError({
      kind: "exhausted",
      reason: "BACKUP_NO_ROOM",
      message: `${files.directory} has room for ${room} bytes, and a backup needs ${needed}: make room, or lower HOLDFAST_BACKUP_KEEP`,
      metadata: { directory: files.directory },
    });
  };

  const prune = async (): Promise<void> => {
    for (const { name } of (await own()).slice(keep))
      await files.remove(name).catch((error: unknown) => {
        log.warn("an old backup could not be removed", { directory: files.directory, file: name, error });
      });
  };

  const makeOne = async (): Promise<void> => {
    const [last] = await own();
    await refuseWithoutRoom(last);
    const at = Math.max(clock.now(), last === undefined ? 0 : last.at + 1_000); // K4
    const name = backupName(owner, at);
    const source = await openSource();
    try {
      const { records, bytes } = await writeBackup({ source, files, name, cell: owner.cell, at, judge });
      youngest = { before: 0, since: clock.monotonic() };
      log.info("a backup was written and read back", { directory: files.directory, file: name, records, bytes });
    } finally {
      await source.close();
    }
    await prune(); // K2
  };

  /** What a life before this one left, and when it made its last one. */
  const lookBack = async (): Promise<number> => {
    const names = await files.list();
    const left = names.flatMap((name) => (name.endsWith(unfinished) ? [name.slice(0, -unfinished.length)] : []));
    for (const { name } of backupsOf(owner, left)) await files.remove(`${name}${unfinished}`);
    const [last] = backupsOf(owner, names);
    if (last === undefined) return 0;
    const before = Math.max(0, clock.now() - last.at);
    youngest = { before, since: clock.monotonic() };
    return Math.max(0, intervalMs - before);
  };

  /** K1 */
  const vetted = async (): Promise<void> => {
    const changed = createNotifier();
    const leave = gate.onChange(changed.notify);
    try {
      for (let seen = changed.version(); !gate.state().open; ) seen = await changed.wait(seen, signal);
    } finally {
      leave();
    }
  };

  /** Answers how long to wait for the next one. K3 */
  const attempt = async (work: () => Promise<number>): Promise<number> => {
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      failures += 1;
      const again = Math.min(intervalMs, longestRetryMs);
      log.error("no backup was made; it is tried again", { directory: files.directory, again_in_ms: again, error });
      return again;
    }
  };

  return {
    standing: () => ({ ageMs: youngest.before + clock.monotonic() - youngest.since, failures }),
    async run() {
      await clock.sleep(await attempt(lookBack), signal);
      for (;;) {
        await vetted();
        const next = await attempt(async () => {
          await makeOne();
          return intervalMs;
        });
        await clock.sleep(next, signal);
      }
    },
  };
};
