/**
 * Is this the file that this controller left? A mark, new at each opening, stands in the file and in the state directory. A file of
 * another controller has another mark, and so has a copy from before the last opening, as a restored backup is one: either may have
 * forgotten grants, so that nothing is granted from it until it is vetted.
 *
 * M1 A kill between any two of the three writes leaves marks that agree: the state directory names the mark to come beside the
 * mark that was. M2 A file that was not accepted stays so over restarts, until it is vetted.
 * What it cannot see: file and state directory restored together, and a copy made while this process had the file open.
 */
import type { StateFile } from "../state-file.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export interface SqliteLineage {
  /** The mark of this opening; it names the process, as Redis' run_id does. */
  readonly runId: string;
  /** Changes when the file was not the one that was left. */
  readonly life: string;
  readonly accepted: boolean;
}

interface Marks {
  readonly current: string;
  readonly next?: string;
}

export const establishLineage = (
  db: SqliteDatabase,
  /** undefined: nothing to compare with, as for a store in memory. */
  marks: StateFile | undefined,
  uuid: () => string,
): SqliteLineage => {
  const text = marks?.read();
  const known = text === undefined ? undefined : (JSON.parse(text) as Marks);
  const found = db.meta("mark") ?? "";
  const accepted = marks === undefined || found === (known?.current ?? "") || found === known?.next;
  const runId = uuid();
  marks?.write(JSON.stringify({ current: accepted ? found : (known?.current ?? ""), next: runId })); // M1
  const life = accepted ? (db.meta("life") ?? uuid()) : uuid();
  db.transaction(() => {
    // A file that was just made has no mark and needs no vetting, if this controller had none before.
    if (accepted && (db.meta("vettedRunId") ?? "") === found) db.setMeta("vettedRunId", runId);
    else if (db.meta("vettedRunId") === undefined) db.setMeta("vettedRunId", ""); // M2
    db.setMeta("mark", runId);
    db.setMeta("life", life);
  });
  marks?.write(JSON.stringify({ current: runId }));
  return { runId, life, accepted };
};
