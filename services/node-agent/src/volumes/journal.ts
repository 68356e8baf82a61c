/** The journal's file, opened: what it held, whether it is sound, and what adds to it. */
import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { type JournalReading, journalFormat, readJournal, wayBackFromNewer } from "./journal-format.ts";
import { createJournalWriter, type JournalOptions, type JournalWriter } from "./journal-writer.ts";

export interface Journal extends JournalWriter {
  readonly uid: string;
  readonly damage: string | undefined;
  /** What the file held when it was opened. */
  readonly records: readonly unknown[];
}

export async function openJournal(options: JournalOptions): Promise<Journal> {
  const file = path.join(options.dir, "journal");
  const temporary = path.join(options.dir, "journal.new");
  await rm(temporary, { force: true });
  const found = await readIfThere(file);
  const reading: JournalReading = found === undefined ? fresh(options) : readJournal(found);
  if (reading.kind === "newer") {
    // Not started again over it by a supervisor: nothing gets better by that.
    throw new ConfigError([
      {
        field: "HOLDFAST_STATE_DIR",
        description: `has a newer journal: ${file} has format ${reading.format}, this release reads up to ${journalFormat}: ${wayBackFromNewer}`,
      },
    ]);
  }
  const journal = reading.journal;
  if (journal !== undefined && journal.header.machine !== options.machine) {
    throw new Error(
      `${file} belongs to machine ${journal.header.machine}, this is ${options.machine}: a state directory must not be copied; remove it on the copy`,
    );
  }
  const damage =
    reading.kind === "damaged"
      ? `${file} is damaged at byte ${reading.at}: ${reading.why}. Restore it, or move it away once you have looked at what is mounted; a person then admits the new life of the node`
      : undefined;
  const uid = journal?.header.uid ?? options.newUid();
  const records = journal?.records ?? [];
  const writer = createJournalWriter(options, file, temporary, {
    format: journalFormat,
    uid,
    machine: options.machine,
  });
  if (damage === undefined) {
    // A file that ends cleanly is gone on with; a torn end is cut by rewriting what was good.
    const clean =
      found !== undefined && journal !== undefined && journal.goodBytes === found.length && !journal.missingBreak;
    if (clean) await writer.resume(journal.goodBytes, journal.sequence);
    else await writer.begin(records.length === 0 ? [] : [records]);
  }
  return { uid, damage, records, ...writer.journal };
}

async function readIfThere(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function fresh({ machine, newUid }: JournalOptions): JournalReading {
  const header = { format: journalFormat, uid: newUid(), machine };
  return { kind: "good", journal: { header, records: [], sequence: 0, goodBytes: 0, missingBreak: false } };
}
