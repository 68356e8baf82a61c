import { readFile, statfs } from "node:fs/promises";
import path from "node:path";
import { type Finding, fault, fine } from "@holdfast/shared/doctor/finding";
import { journalFormat, readJournal, wayBackFromNewer } from "../volumes/journal-format.ts";

const restore =
  "restore the state directory; or move the journal away once you have looked at what is mounted: the node then registers anew";

/** The journal as a start would find it; it is read and not touched. An agent that writes to it now may leave its end torn. */
export const examineJournal = async (
  stateDir: string,
  machine: string,
  minFreeBytes = 0,
): Promise<readonly Finding[]> => {
  const file = path.join(stateDir, "journal");
  const bytes = await readFile(file).catch((error: unknown) => error);
  if (!Buffer.isBuffer(bytes)) {
    const code = bytes instanceof Error && "code" in bytes ? String(bytes.code) : String(bytes);
    if (code === "ENOENT") return [fine("journal", file, "will be made at the first start")];
    return [fault("journal", file, `cannot be read (${code})`, "run as the agent's user")];
  }
  const reading = readJournal(bytes);
  if (reading.kind === "newer")
    return [
      fault(
        "journal-newer",
        file,
        `has format ${reading.format}, this release reads up to ${journalFormat}`,
        wayBackFromNewer,
      ),
    ];
  if (reading.kind === "damaged")
    return [fault("journal-damaged", file, `is damaged at byte ${reading.at}: ${reading.why}`, restore)];
  const { header, records } = reading.journal;
  if (header.machine !== machine)
    return [
      fault(
        "journal-copied",
        file,
        `belongs to machine ${header.machine}, this is ${machine}`,
        "a state directory must not be copied between machines: remove it on the copy",
      ),
    ];
  const { bavail, bsize } = await statfs(stateDir);
  if (bavail * bsize < minFreeBytes)
    return [
      fault(
        "journal-full",
        file,
        `its disk has ${bavail * bsize} bytes left, ${minFreeBytes} are kept for releases: no claim is taken`,
        "free some space on it; the agent then goes on by itself",
      ),
    ];
  return [fine("journal", file, `can be read, ${records.length} records`)];
};
