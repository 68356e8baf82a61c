/**
 * Makes one file of a backup.
 *
 * W1 The file appears under its name whole and read once more, or not at all. W2 A store that was emptied or replaced while it was read
 * makes no file: what is missing in it would look as if it had been removed. W3 A record that its users could not read makes no file
 * either.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { PlacedRecord, StoredRecord } from "../domain/store-types.ts";
import type { ExportSource } from "../store/export-source.ts";
import type { BackupFiles } from "./backup-files.ts";
import { checkExport, type ExportSummary, writeExport } from "./export-file.ts";

export interface BackupToWrite {
  readonly source: ExportSource;
  readonly files: Pick<BackupFiles, "directory" | "write" | "lines" | "rename" | "remove">;
  readonly name: string;
  readonly cell: string;
  /** Milliseconds since 1970, for people. */
  readonly at: number;
  /** Throws for a record that its users could not read. */
  readonly judge: (record: StoredRecord) => void;
}

/** Of a file that is not whole yet. */
export const unfinished = ".part";

async function* soundRecords({ source, judge }: BackupToWrite): AsyncGenerator<PlacedRecord> {
  for await (const record of source.records()) {
    judge({ ...record, rev: 1 }); // W3
    yield record;
  }
}

/** W2 */
const refuseAnother = async ({ identity, identityNow }: ExportSource): Promise<void> => {
  const now = await identityNow();
  if (now?.clusterUid === identity.clusterUid && now.gen === identity.gen) return;
  throw new HoldfastError({
    kind: "aborted",
    reason: "EXPORT_MOVED",
    message: `while the store of installation ${identity.clusterUid} was being exported, it was emptied, replaced or vetted; no file was made, repeat it`,
    metadata: { cluster: identity.clusterUid },
  });
};

export const writeBackup = async (backup: BackupToWrite): Promise<ExportSummary> => {
  const { source, files, name, cell, at } = backup;
  const part = `${name}${unfinished}`;
  try {
    const head = { cell, ...source.identity, at: new Date(at).toISOString() };
    const written = await files.write(part, (write) => writeExport(head, soundRecords(backup), write));
    await refuseAnother(source);
    const read = await checkExport({ file: `${files.directory}/${part}`, lines: files.lines(part) }); // W1
    if (read.digest !== written.digest)
      throw new HoldfastError({
        kind: "unavailable",
        reason: "EXPORT_DAMAGED",
        message: `${files.directory}/${part} is not what was written; no file was made, look at the disk`,
        metadata: { file: `${files.directory}/${part}` },
      });
    await files.rename(part, name);
    return written;
  } catch (error) {
    await files.remove(part).catch(() => undefined);
    throw error;
  }
};
