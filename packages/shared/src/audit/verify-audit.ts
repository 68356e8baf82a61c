/** Whether the files of an audit are as they were written; read as they stand, beside a service or long after it. */
import { statSync } from "node:fs";
import path from "node:path";
import { type BadLine, checkChain, type PlacedLine, type SoundChain } from "./audit-chain.ts";
import { type AuditFileName, auditFilesIn, linesOf, parseFileName } from "./audit-files.ts";

export interface VerifiedTrail extends SoundChain {
  /** Empty: files that bear no name of a trail. */
  readonly trail: string;
  readonly files: number;
}

export type AuditVerdict = { readonly trails: readonly VerifiedTrail[] } | { readonly bad: BadLine };

interface GivenFile extends AuditFileName {
  /** All that there is of the trail was given with it. */
  readonly whole: boolean;
}

/** Throws what the system says of a path that cannot be read. */
const filesOf = (paths: readonly string[]): readonly GivenFile[] =>
  paths.flatMap((given): readonly GivenFile[] => {
    if (statSync(given).isDirectory()) return auditFilesIn(given).map((file) => ({ ...file, whole: true }));
    return [{ ...(parseFileName(given) ?? { file: given, trail: "", first: 0 }), whole: false }];
  });

const verifyTrail = (
  trail: string,
  files: readonly GivenFile[],
  head: string | undefined,
): VerifiedTrail | { readonly bad: BadLine } | undefined => {
  let misnamed: BadLine | undefined;
  function* lines(): Generator<PlacedLine> {
    for (const { file, first } of files)
      for (const line of linesOf(file)) {
        if (line.line === 1 && first > 0 && !line.text.startsWith(`{"seq":${first},`))
          misnamed ??= { ...line, reason: `is not line ${first} of the chain, as the name of the file says` };
        yield line;
      }
  }
  const found = checkChain(lines(), head);
  if (found === undefined || "bad" in found) return found;
  if (misnamed !== undefined) return { bad: misnamed };
  const [oldest] = files;
  if (oldest?.whole === true && found.first > 1 && found.removedThrough < found.first - 1) {
    const reason = `is line ${found.first} of the chain, and no line says that those before it were removed for their age`;
    return { bad: { file: path.basename(oldest.file), line: 1, reason } };
  }
  return { trail, files: files.length, ...found };
};

/** Each trail by itself. With `head` one of them has to hold a line of that hash: an end that was cut off is found by nothing else. */
export const verifyAudit = (paths: readonly string[], head?: string): AuditVerdict => {
  const trails: VerifiedTrail[] = [];
  for (const [trail, files] of Map.groupBy(filesOf(paths), (file) => file.trail)) {
    const inOrder = files.toSorted((a, b) => a.first - b.first);
    const found = verifyTrail(trail, inOrder, head);
    if (found === undefined) continue;
    if ("bad" in found) return found;
    trails.push(found);
  }
  const last = trails.at(-1);
  if (head !== undefined && last !== undefined && !trails.some(({ hasAsked }) => hasAsked)) {
    const reason = `is the last one, and no line has the hash ${head}: the end was cut off, or was changed`;
    return { bad: { ...last.last, reason } };
  }
  return { trails };
};
