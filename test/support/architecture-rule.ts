import { lineAt } from "./architecture-scan.ts";
import type { SourceFile } from "./architecture-source.ts";

export type Violation = { rule: string; path: string; line: number; message: string };

export type Rule = {
  id: string;
  /** The rule in one sentence, as CONTRIBUTING.md and docs/architecture.md tell it. */
  says: string;
  check: (files: readonly SourceFile[]) => Finding[];
};

type Finding = { path: string; line: number; message: string };

/** A rule that needs to see one file at a time. */
export function perFile(check: (file: SourceFile) => readonly { line: number; message: string }[]): Rule["check"] {
  return (files) => files.flatMap((file) => check(file).map((finding) => ({ path: file.path, ...finding })));
}

/** One finding per match of the pattern in the code (not in strings or comments). */
export function matchesInCode(file: SourceFile, pattern: RegExp, message: (found: string) => string) {
  return [...file.code.matchAll(pattern)].map((match) => ({
    line: lineAt(file.text, match.index),
    message: message(match[0].trim()),
  }));
}

export function checkRules(rules: readonly Rule[], files: readonly SourceFile[]): Violation[] {
  return rules.flatMap((rule) => rule.check(files).map((finding) => ({ rule: rule.id, ...finding })));
}

export function printViolation({ rule, path, line, message }: Violation): string {
  return `${rule} ${path}:${line} ${message}`;
}

/** Where a file of a service lives: which service, and which part of it (`domain`, `api`, `app.ts`, …). A driver of our own is one too. */
export function placeOf(path: string): { service: string; part: string } | undefined {
  const found = /^(?:services\/([^/]+)|packages\/(local-driver))\/src\/([^/]+)/.exec(path);
  return found === null ? undefined : { service: found[1] ?? found[2] ?? "", part: found[3] ?? "" };
}
