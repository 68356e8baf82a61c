import { matchesInCode, perFile, type Rule } from "./architecture-rule.ts";
import { depths, lineAt } from "./architecture-scan.ts";
import type { SourceFile } from "./architecture-source.ts";

const sourceLines = 300;
const testLines = 600;

/**
 * Files that are a role or a family, not a thing, and so are not named after an export: `model` and `types` declare the
 * nouns of a folder, `*-change` holds the events of one record, `*-rules` is a set of rules.
 */
const namedByRole =
  /\/(?:main|app|ports|operations|config|convert|convert-[\w-]+|model|types|[\w-]+-(?:main|types|change|rules))\.ts$/;

/** Reviewed one by one: path → why it may be called that. A path that is gone fails the test. */
export const reviewedNames: ReadonlyMap<string, string> = new Map([
  ["packages/csi/src/messages.ts", "the codecs of all CSI messages, by method"],
  ["packages/sim-plugin/src/backend/json.ts", "encode and decode are what JSON means there"],
  ["services/node-agent/src/volumes/durable-files.ts", "what the journal needs of a file system"],
  ["packages/sim-plugin/src/backend/rpc.ts", "the types of the calls between role and backend processes"],
]);

const cut =
  /(?:^|\n)[ \t]*(?:import|export)\s+(?:type\s+)?(?:\*(?:\s*as\s+[\w$]+)?|\{[^}]*\}|[\w$]+(?:\s*,\s*\{[^}]*\})?)(?:\s*from\s*["'][^"'\n]*["'])?\s*;?/g;
const variable = /(?<![.\w$])(?:let|var)\s+[\w$[{]/g;
const collection =
  /(?<![.\w$])(export\s+)?const\s+([\w$]+)\s*=\s*(?:new\s+(?:Map|Set|WeakMap|WeakSet|Array)\b[^(]*\(\s*(\))?|\[\s*(\])|\{\s*(\}))/g;

/** The rules about the form of a file (R8 and R9 of docs/architecture.md). */
export const formRules: readonly Rule[] = [
  { id: "R8-cycles", says: "no import cycles", check: importCycles },
  {
    id: "R8-default",
    says: "no default exports",
    check: perFile((file) =>
      matchesInCode(file, /(?<![.\w$])export\s+default\b|\bas\s+default\b/g, () => "default export; name it"),
    ),
  },
  {
    id: "R8-barrel",
    says: "no barrels: a file that only hands on what others export",
    check: perFile((file) =>
      isBarrel(file) ? [{ line: 1, message: "only re-exports; import from the file that has it" }] : [],
    ),
  },
  {
    id: "R8-any",
    says: "no any",
    check: perFile((file) =>
      matchesInCode(file, /(?<![.\w$])any(?![\w$(]|\??\s*:)/g, () => "the type any; use unknown and look"),
    ),
  },
  {
    id: "R8-state",
    says: "no module state: what changes lives in a closure that somebody made",
    check: perFile((file) => {
      if (file.isTest) return [];
      const depth = depths(file.code);
      const collections = [...file.code.matchAll(collection)].filter((match) => isState(file, match));
      return [...file.code.matchAll(variable), ...collections]
        .filter(({ index }) => depth[index] === 0)
        .map(({ index, 0: found }) => ({
          line: lineAt(file.text, index),
          message: `module state: ${found.replace(/\s+/g, " ")} (a constant table has its content from the start; exported, it is typed Readonly…)`,
        }));
    }),
  },
  {
    id: "R8-class",
    says: "no classes but errors",
    check: perFile((file) =>
      matchesInCode(
        file,
        /(?<![.\w$])class\s+(?!extends\b)[\w$]+(?!\s*(?:<[^>]*>\s*)?extends\s+[\w$.]*Error\b)(?![\w$])/g,
        (found) => `${found}: only errors are classes`,
      ),
    ),
  },
  {
    id: "R9-name",
    says: "files are kebab-case and named as their main export",
    check: perFile((file) => {
      const name = file.path.split("/").at(-1) ?? "";
      if (!/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+)*\.ts$/.test(name))
        return [{ line: 1, message: "the file name is not kebab-case" }];
      if (file.isTest || namedByRole.test(`/${file.path}`)) return [];
      const words = name
        .slice(0, name.indexOf("."))
        .split("-")
        .map((word) => word.replace(/(?:ies|y|(?<=s)es|s)$/, ""));
      const carries = (exported: string) =>
        words.some((word) => word.length > 1 && exported.toLowerCase().includes(word));
      if (file.exports.some(carries) || reviewedNames.has(file.path)) return [];
      return [
        {
          line: 1,
          message: `no export carries a word of the file's name; it exports ${file.exports.join(", ") || "nothing"}`,
        },
      ];
    }),
  },
  {
    id: "R9-size",
    says: `at most ${sourceLines} lines a file, ${testLines} for tests`,
    check: perFile((file) => {
      const lines = file.text.trimEnd().split("\n").length;
      const limit = file.isTest ? testLines : sourceLines;
      return lines > limit
        ? [{ line: limit + 1, message: `${lines} lines; ${limit} is the limit: there are two ideas in it` }]
        : [];
    }),
  },
  {
    id: "R9-debt",
    says: "no TODO, FIXME or XXX: an open end is an issue, not a comment",
    check: perFile((file) =>
      file.comments
        .filter(({ value }) => /\b(?:TODO|FIXME|XXX)\b/.test(value))
        .map(({ start }) => ({ line: lineAt(file.text, start), message: "an open end in a comment" })),
    ),
  },
];

/** Empty at the start, changed later, or open to change by others; a table filled once where it stands is none. */
function isState(file: SourceFile, match: RegExpMatchArray): boolean {
  const [, exported, name = "", ...empty] = match;
  if (exported !== undefined || empty.some((it) => it !== undefined)) return true;
  const changes = ["set", "add", "delete", "clear", "push", "pop", "shift", "unshift", "splice", "sort"];
  return changes.some((change) => file.code.includes(`${name}.${change}(`));
}

function isBarrel({ code, exports }: SourceFile): boolean {
  return exports.length > 0 && /(?<![.\w$])export\s+(?:type\s+)?[*{]/.test(code) && code.replace(cut, "").trim() === "";
}

/** Each cycle once per set of files. Types count: a cycle of types is a knot too. */
function importCycles(files: readonly SourceFile[]) {
  const edges = new Map(files.map((file) => [file.path, file.imports]));
  const state = new Map<string, "open" | "done">();
  const found = new Map<string, { path: string; line: number; message: string }>();
  const walk = (path: string, trail: readonly string[]) => {
    state.set(path, "open");
    for (const { target, line } of edges.get(path) ?? []) {
      if (target === undefined || !edges.has(target)) continue;
      if (state.get(target) === "open") {
        const ring = [...trail.slice(trail.indexOf(target)), path].filter((it, at, all) => all.indexOf(it) === at);
        found.set([...ring].sort().join(), { path, line, message: `import cycle: ${[...ring, target].join(" → ")}` });
      } else if (!state.has(target)) walk(target, [...trail, path]);
    }
    state.set(path, "done");
  };
  for (const path of [...edges.keys()].sort()) if (!state.has(path)) walk(path, []);
  return [...found.values()];
}
