import type { Rule } from "./architecture-rule.ts";
import { lineAt } from "./architecture-scan.ts";
import type { SourceFile } from "./architecture-source.ts";

const listed = /^\s*(?:\||[-*])\s*\**`?([A-Z]{1,2}\d{1,2})`?\**[\s.:|]/;
const testPath = /[\w./-]+\.test\.ts/g;
const cited = /\[([A-Z]{1,2}\d{1,2})\]/g;

/**
 * The promises and their proofs point at each other: each invariant that docs/protocol.md lists (a table row or a list
 * item that begins with its id) names test files that cite it as `[I1]` in a title, and no test cites one that is not listed.
 */
export function invariantRule(protocol: string): Rule {
  const invariants = readInvariants(protocol);
  return {
    id: "DOC",
    says: "each invariant of docs/protocol.md names its tests, and each such test names its invariant",
    check: (files) => [...promisesWithoutProof(invariants, files), ...proofsOfNothing(invariants, files)],
  };
}

type Invariant = { id: string; line: number; tests: readonly string[] };

/** The invariants with the tests their entry names; an entry goes on until the next one or an empty line. */
export function readInvariants(protocol: string): Invariant[] {
  const found: { id: string; line: number; tests: string[] }[] = [];
  let open = false;
  for (const [at, line] of protocol.split("\n").entries()) {
    const id = listed.exec(line)?.[1];
    if (id !== undefined) found.push({ id, line: at + 1, tests: [] });
    open = id !== undefined || (open && line.trim() !== "" && !/^\s*(?:\||[-*#])/.test(line));
    if (open) found.at(-1)?.tests.push(...[...line.matchAll(testPath)].map(([path]) => path));
  }
  return found.filter(({ id }) => /^I\d+$/.test(id));
}

function promisesWithoutProof(invariants: readonly Invariant[], files: readonly SourceFile[]) {
  const tests = new Map(files.filter(({ isTest }) => isTest).map((file) => [file.path, file]));
  return invariants.flatMap(({ id, line, tests: named }) => {
    const say = (message: string) => ({ path: "docs/protocol.md", line, message });
    if (named.length === 0) return [say(`${id} names no test`)];
    return named.flatMap((path) => {
      const file = tests.get(path);
      if (file === undefined) return [say(`${id} names ${path}, which does not exist`)];
      return citations(file).some((citation) => citation.id === id)
        ? []
        : [say(`${id} names ${path}, which does not cite [${id}]`)];
    });
  });
}

function proofsOfNothing(invariants: readonly Invariant[], files: readonly SourceFile[]) {
  const known = new Set(invariants.map(({ id }) => id));
  return files
    .filter(({ isTest, path }) => isTest && path.endsWith(".test.ts"))
    .flatMap((file) =>
      citations(file)
        .filter(({ id }) => /^I\d+$/.test(id) && !known.has(id))
        .map(({ id, line }) => ({
          path: file.path,
          line,
          message: `cites [${id}], which docs/protocol.md does not list`,
        })),
    );
}

function citations({ text, strings }: SourceFile) {
  return strings.flatMap(({ start, value }) =>
    [...value.matchAll(cited)].map((match) => ({ id: match[1] ?? "", line: lineAt(text, start) })),
  );
}
