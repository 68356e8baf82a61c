import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { type Finding, fault, fine, warning } from "@holdfast/shared/doctor/finding";
import { createBackupFiles } from "../backup/backup-files.ts";
import { backupsOfCell } from "../backup/backup-name.ts";

export interface BackupExamination {
  readonly directory: string;
  readonly cell: string;
  readonly intervalMs: number;
  readonly now: number;
}

/** One that is late by less was delayed by a restart. */
const lateAfterMs = (intervalMs: number): number => 2 * intervalMs + 300_000;

const shown = (ms: number): string =>
  ms < 7_200_000 ? `${Math.round(ms / 60_000)} minutes` : `${Math.round(ms / 3_600_000)} hours`;

const cureOfLate = "the log of the controller says why it makes none; until then: holdfast export FILE";

/** Whether backups can be written to a directory, and are. */
export const examineBackups = async ({
  directory,
  cell,
  intervalMs,
  now,
}: BackupExamination): Promise<readonly Finding[]> => {
  try {
    await access(directory, constants.W_OK | constants.X_OK | constants.R_OK);
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    const cure = "make it, for this service's user alone, or correct HOLDFAST_BACKUP";
    return [fault("backup-dir", directory, `no backup can be written to it (${why})`, cure)];
  }
  const files = createBackupFiles(directory);
  const backups = backupsOfCell(cell, await files.list());
  const [last] = backups;
  const room = Math.round((await files.room()) / 2 ** 20);
  if (last === undefined)
    return [warning("backup-late", directory, `holds no backup of cell ${cell}; ${room} MiB are free`, cureOfLate)];
  const age = Math.max(0, now - last.at);
  const words = `the last of ${backups.length} backups of cell ${cell} is ${shown(age)} old; ${room} MiB are free`;
  return age > lateAfterMs(intervalMs)
    ? [warning("backup-late", directory, words, cureOfLate)]
    : [fine("backup", directory, words)];
};
