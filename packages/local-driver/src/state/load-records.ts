import path from "node:path";
import type { Logger } from "@holdfast/shared/log/logger";
import type { DriverRecord } from "../domain/records.ts";
import { hostFailure, messageOf } from "../host/host-failure.ts";
import { type Layout, markPrefix, recordFile, sumOf, unfinishedFile } from "./layout.ts";
import { decodeRecord, maxRecordBytes } from "./record-codec.ts";
import type { Broken } from "./record-index.ts";
import type { RecordOf } from "./record-readers.ts";
import type { Entry, StateFiles } from "./state-files.ts";

export interface Loaded<R extends DriverRecord> {
  readonly records: readonly R[];
  readonly broken: readonly Broken[];
}

export interface LoadParts {
  readonly layout: Layout;
  readonly files: StateFiles;
  readonly log: Logger;
}

/** Each holds threads of the pool that all file calls share. */
const atOnce = 4;

/**
 * All records of one kind. One that cannot be read is told, and nothing of it is touched. What a killed life had not synced yet is
 * synced: nobody is told of anything that a loss of power could still take back.
 */
export async function loadRecords<K extends DriverRecord["kind"]>(
  kind: K,
  { layout, files, log }: LoadParts,
): Promise<Loaded<RecordOf<K>>> {
  const folder = layout.folder(kind);
  const entries = await files
    .syncDirectory(folder)
    .then(() => files.list(folder))
    .catch((error: unknown) => {
      throw hostFailure(`read ${folder}`, error);
    });
  const queue = [...entries].sort((a, b) => (a.name < b.name ? -1 : 1)).filter((entry) => isOurs(entry, folder, log));
  const found: (RecordOf<K> | Broken)[] = [];
  const next = queue.entries();
  const work = async () => {
    for (const [at, entry] of next)
      found[at] = await loadRecord(kind, path.join(folder, entry.name), entry, { files, log });
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  const broken = found.filter(isBroken);
  for (const { id, file, reason } of broken) log.error("a record cannot be read", { kind, id, file, reason });
  return { records: found.filter((each): each is RecordOf<K> => !isBroken(each)), broken };
}

/** The driver makes directories only, so what else is there stands for nothing; but a link in the place of one hides something. */
function isOurs({ name, kind }: Entry, folder: string, log: Logger): boolean {
  if (kind === "directory") return name !== "lost+found";
  if (kind === "link") return true;
  log.warn("not of the driver's making: ignored", { file: path.join(folder, name) });
  return false;
}

async function loadRecord<K extends DriverRecord["kind"]>(
  kind: K,
  directory: string,
  { name: id, kind: entryKind }: Entry,
  { files, log }: Pick<LoadParts, "files" | "log">,
): Promise<RecordOf<K> | Broken> {
  const file = recordFile(directory);
  const broken = (reason: string, nameSum?: string): Broken => ({
    kind,
    id,
    file,
    reason: `${reason}; ${cure(directory)}`,
    nameSum,
  });
  if (entryKind === "link") return broken(`${directory} is a symbolic link, which the driver does not follow`);
  try {
    const names = (await files.list(directory)).map((entry) => entry.name);
    const marks = names.filter((name) => name.startsWith(markPrefix)).map((name) => name.slice(markPrefix.length));
    const mark = marks.length === 1 ? marks[0] : undefined;
    if (!names.includes(path.basename(file))) return broken("it is missing", mark);
    const read = decodeRecord(await files.read(file, maxRecordBytes), { kind, id });
    if (!("record" in read)) return broken(read.reason, read.name === undefined ? mark : sumOf(read.name));
    const unfinished = unfinishedFile(directory);
    if (names.includes(path.basename(unfinished))) {
      // A write that a killed life did not finish. The next one writes over it, should it not go away now.
      await files.unlink(unfinished).catch((error: unknown) => {
        log.warn("could not be deleted", { file: unfinished, why: messageOf(error) });
      });
    }
    await files.syncDirectory(directory);
    return read.record;
  } catch (error) {
    return broken(`it cannot be read (${messageOf(error)})`);
  }
}

const cure = (directory: string): string =>
  `put back a good copy of the file, or move ${directory} out of the state directory to give it up; then restart the driver (nothing of it was touched)`;

const isBroken = (found: DriverRecord | Broken): found is Broken => "reason" in found;
