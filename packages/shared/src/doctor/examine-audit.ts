import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { readLine } from "../audit/audit-chain.ts";
import { systemDisk } from "../audit/audit-disk.ts";
import { auditFilesIn, linesOf } from "../audit/audit-files.ts";
import { defaultMaxBytes, leftFree } from "../audit/audit-trail.ts";
import { type AuditPlace, auditDirectory } from "../audit/open-audit.ts";
import { type Finding, fault, fine, warning } from "./finding.ts";
import { nearestThere } from "./nearest-there.ts";

/** Less is left to what shares the disk: no file is begun. */
const neededBytes = defaultMaxBytes + leftFree;

/** What the newest file of each trail says of lines that could not be written. */
const gapsIn = (directory: string): readonly Finding[] => {
  const byTrail = Map.groupBy(auditFilesIn(directory), ({ trail }) => trail);
  return [...byTrail.values()].flatMap((all) => {
    const file = all.at(-1)?.file;
    if (file === undefined) return [];
    const said = [...linesOf(file)].map(({ text }) => readLine(text)?.fields);
    const last = said.findLast((fields) => fields?.["kind"] === "gap");
    if (last === undefined) return [];
    const message = `lacks ${last["missing"]} lines since ${last["since"]} (${last["code"]})`;
    return [warning("audit-gap", file, message, "put the audit on a disk with more room (HOLDFAST_AUDIT_DIR)")];
  });
};

/** Whether who did what can be written down, and was. Looks at the newest files only: `holdfast audit verify` reads all. */
export const examineAudit = async (
  place: Omit<AuditPlace, "auditFiles">,
  room = systemDisk.room,
): Promise<readonly Finding[]> => {
  const directory = auditDirectory(place);
  const nearest = await nearestThere(directory);
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
    const free = room(nearest);
    if (free < neededBytes)
      return [
        fault(
          "audit-full",
          directory,
          `its disk has room for ${free} bytes: lines will be missing`,
          "make room, or put the audit on another disk (HOLDFAST_AUDIT_DIR); then it goes on by itself",
        ),
      ];
    if (nearest !== directory) return [fine("audit-dir", directory, "will be made")];
    const { mode } = await stat(directory);
    const open =
      (mode & 0o077) === 0
        ? []
        : [warning("audit-open", directory, "is open to others than its owner", `chmod go= ${directory}`)];
    return [fine("audit-dir", directory, "can be written"), ...open, ...gapsIn(directory)];
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    return [
      fault(
        "audit-dir",
        directory,
        `cannot be written (${nearest}: ${why})`,
        "give it to this service's user, or correct HOLDFAST_AUDIT_DIR",
      ),
    ];
  }
};
