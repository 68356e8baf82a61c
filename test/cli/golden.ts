import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import type { CliEnd, CliOptions } from "./cli-run.ts";

const folder = path.resolve(import.meta.dirname, "golden");

/** What differs from run to run, and from machine to machine. */
const scrubs: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>"],
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<uuid>"],
  [/\b[0-9a-z]{8,13}-(?=<uuid>)/g, ""],
  [/00-[0-9a-f]{32}-[0-9a-f]{16}-0\d/g, "<traceparent>"],
  [/\b[0-9a-f]{32}\b/g, "<hex32>"],
  [/\b\d+(?:d\d+h|h\d+m|m\d+s|d|h|m|s)(?= ago|\))/g, "<age>"],
  [/\/tmp\/hf-[A-Za-z0-9]+/g, "<dir>"],
  [/\/[0-9a-f]{16,64}(?=[/"\s])/g, "/<hash>"],
  [/\b(?!0{12})[0-9a-f]{12}\b/g, "<life>"],
  [/\b(?:vol|snap|group)-[0-9a-f]{16}\b/g, "<external id>"],
  [/127\.0\.0\.1:\d+/g, "<address>"],
  [/"revision": "\d+"/g, '"revision": "<n>"'],
  [/\b\d+ (?=records|bytes)/g, "<n> "],
  [/^\d+ of \d+$/gm, "<n> of <n>"],
  // What a wait showed on the way depends on how fast things went.
  [/^… .*\n/gm, ""],
];

/** Runs of blanks in a table depend on how wide the scrubbed cells were. */
const scrub = (text: string): string =>
  scrubs.reduce((all, [pattern, word]) => all.replaceAll(pattern, word), text).replaceAll(/(?<=\S) {2,}/g, "  ");

/** Compares with test/cli/golden/<name>; HOLDFAST_GOLDEN=1 writes it anew, for a person to read the difference. */
const expectGolden = (name: string, text: string): void => {
  const file = path.join(folder, name);
  const actual = scrub(text);
  if (process.env["HOLDFAST_GOLDEN"] === "1") {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, actual);
    return;
  }
  if (!existsSync(file)) throw new Error(`there is no golden file ${name}; HOLDFAST_GOLDEN=1 writes it`);
  expect(actual, name).toBe(readFileSync(file, "utf8"));
};

type Run = (args: string, options?: CliOptions) => Promise<CliEnd>;

/** The same command for people and for programs: what both say is golden. Answers what people read. */
export const createGolden =
  (run: Run) =>
  async (
    name: string,
    args: string,
    code = 0,
    options: CliOptions = {},
    words: readonly (readonly [string | RegExp, string])[] = [],
  ): Promise<CliEnd> => {
    /** What only the caller knows to differ from run to run. */
    const known = (text: string): string => words.reduce((all, [word, name]) => all.replaceAll(word, name), text);
    const people = await run(args, options);
    expect(people.code, people.err).toBe(code);
    expectGolden(`${name}.txt`, known(`$ holdfast ${args}\n${people.out}${people.err}exit ${people.code}\n`));
    const program = await run(`${args} --json`, options);
    expect(program.code, program.err).toBe(code);
    expectGolden(`${name}.json`, known(`${program.out}${program.err}`));
    return people;
  };
