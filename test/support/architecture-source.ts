import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { lineAt, type Scanned, scanSource } from "./architecture-scan.ts";

export type Import = {
  line: number;
  specifier: string;
  /** The repository path the specifier stands for; undefined for packages and `node:` modules. */
  target: string | undefined;
  kind: "static" | "type" | "dynamic" | "re-export";
};

export type SourceFile = Scanned & {
  path: string;
  text: string;
  imports: readonly Import[];
  /** Every exported name; `*` for `export * from`. */
  exports: readonly string[];
  /** Tests and what only tests import: held to fewer rules. */
  isTest: boolean;
};

const workspaces: Record<string, string> = {
  shared: "packages/shared",
  csi: "packages/csi",
  model: "packages/model",
  "sim-plugin": "packages/sim-plugin",
  "local-driver": "packages/local-driver",
  cli: "packages/cli",
  controller: "services/controller",
  "node-agent": "services/node-agent",
};

const clause = String.raw`(?:\*(?:\s*as\s+[\w$]+)?|\{[^}]*\}|[\w$]+(?:\s*,\s*(?:\{[^}]*\}|\*\s*as\s+[\w$]+))?)`;
const fromStatement = new RegExp(String.raw`(?<![.\w$])(import|export)\s+(type\s+)?(${clause})\s*from\s*(["'])`, "g");
const sideEffectImport = /(?<![.\w$])import\s*(["'])/g;
const dynamicImport = /(?<![.\w$])import\s*\(\s*(["'`])/g;
const exportedDeclaration =
  /(?<![.\w$])export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\s*\*?|const|let|class|type|interface)\s+([\w$]+)/g;
const exportedList = /(?<![.\w$])export\s+(?:type\s+)?\{([^}]*)\}/g;

/** Reads one file as the rules see it; the text may be a planted one that is on no disk. */
export function parseSource(file: string, text: string): SourceFile {
  const scanned = scanSource(text);
  const imports = findImports(file, text, scanned);
  const isTest =
    /\.test\.ts$|^test\/|\/src\/testing\//.test(file) || imports.some(({ specifier }) => specifier === "vitest");
  return { path: file, text, ...scanned, imports, exports: findExports(scanned.code), isTest };
}

function findImports(file: string, text: string, { code, strings }: Scanned): Import[] {
  const valueAt = new Map(strings.map(({ start, value }) => [start, value]));
  const found: Import[] = [];
  const add = (match: RegExpMatchArray, kind: Import["kind"]) => {
    const specifier = valueAt.get((match.index ?? 0) + match[0].length - 1) ?? "";
    found.push({ line: lineAt(text, match.index ?? 0), specifier, target: resolveSpecifier(file, specifier), kind });
  };
  for (const match of code.matchAll(fromStatement)) {
    add(match, match[1] === "export" ? "re-export" : isTypeOnly(match) ? "type" : "static");
  }
  for (const match of code.matchAll(sideEffectImport)) add(match, "static");
  for (const match of code.matchAll(dynamicImport)) add(match, "dynamic");
  return found.sort((a, b) => a.line - b.line);
}

function isTypeOnly(match: RegExpMatchArray): boolean {
  if (match[2] !== undefined) return true;
  const names = /^\{([^}]*)\}$/
    .exec(match[3] ?? "")?.[1]
    ?.split(",")
    .map((name) => name.trim());
  return names?.filter((name) => name !== "").every((name) => name.startsWith("type ")) ?? false;
}

function findExports(code: string): string[] {
  const listed = [...code.matchAll(exportedList)].flatMap((match) => (match[1] ?? "").split(","));
  const names = listed.map((name) => name.trim().split(/\s+/).at(-1) ?? "");
  const declared = [...code.matchAll(exportedDeclaration)].map((match) => match[1] ?? "");
  const all = /(?<![.\w$])export\s+(?:type\s+)?\*/.test(code) ? ["*"] : [];
  return [...declared, ...names, ...all].filter((name) => name !== "");
}

function resolveSpecifier(file: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return path.posix.join(path.posix.dirname(file), specifier);
  const own = /^@holdfast\/([^/]+)(?:\/(.+))?$/.exec(specifier);
  if (own === null) return undefined;
  const folder = workspaces[own[1] ?? ""] ?? `packages/${own[1]}`;
  return `${folder}/src/${own[2] ?? "index"}.ts`;
}

/** Every TypeScript file of the repository, generated ones left out. */
export function readSources(root: string): SourceFile[] {
  const folders = ["packages", "services", "test", "bench", "demo", "examples"];
  return folders
    .flatMap((folder) => listFiles(root, folder, /\.ts$/))
    .map((file) => parseSource(file, readText(root, file)));
}

export function listFiles(root: string, folder: string, name: RegExp): string[] {
  const entries = readFolder(path.join(root, folder));
  return entries.flatMap((entry) => {
    const file = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return /^(?:node_modules|gen|\..*)$/.test(entry.name) ? [] : listFiles(root, file, name);
    return name.test(entry.name) ? [file] : [];
  });
}

function readFolder(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

export function readText(root: string, file: string): string {
  return readFileSync(path.join(root, file), "utf8");
}
