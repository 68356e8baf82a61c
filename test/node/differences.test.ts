/** docs/nomad-differences.md names a test for each of its rows; here they have to exist. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "../..");
const page = "docs/nomad-differences.md";

interface Row {
  readonly id: string;
  readonly ours: string;
  readonly tests: readonly { readonly file: string; readonly title: string }[];
}

const rowsOf = (text: string): readonly Row[] =>
  text.split("\n").flatMap((line) => {
    const [, id = "", , ours = "", named = ""] = line.split("|").map((cell) => cell.trim());
    if (!/^[WX]\d+$/.test(id)) return [];
    const tests = [...named.matchAll(/`([^`]+)` "([^"]+)"/g)].map(([, file = "", title = ""]) => ({ file, title }));
    return [{ id, ours, tests }];
  });

/** What a row lacks, in words. */
const faultsOf = (row: Row, read: (file: string) => string | undefined): readonly string[] => {
  const faults: string[] = [];
  if (row.tests.length === 0) faults.push(`${row.id} names no test`);
  if (row.id.startsWith("X") && !/^(same|ours differs: )/.test(row.ours))
    faults.push(`${row.id} says neither same nor ours differs`);
  for (const { file, title } of row.tests) {
    const text = read(file);
    if (text === undefined) faults.push(`${row.id} names ${file}, which is not there`);
    else if (!text.includes(title)) faults.push(`${row.id} names "${title}", which ${file} does not have`);
  }
  return faults;
};

const read = (file: string): string | undefined => {
  try {
    return readFileSync(path.join(root, file), "utf8");
  } catch {
    return undefined;
  }
};

const numbers = (letter: string, from: number, to: number): readonly string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => `${letter}${from + at}`);

describe(page, () => {
  const rows = rowsOf(readFileSync(path.join(root, page), "utf8"));

  test("has every fact and every weakness of node and controller, once", () => {
    expect(rows.map(({ id }) => id)).toEqual([
      ...numbers("X", 1, 52),
      ...numbers("W", 1, 17),
      ...numbers("W", 19, 49),
      ...numbers("W", 51, 54),
    ]);
  });

  test("names, for each weakness of the controller, a test that is named after it", () => {
    const ofController = [
      ...numbers("W", 6, 11),
      "W17",
      ...numbers("W", 24, 39),
      ...numbers("W", 41, 45),
      ...numbers("W", 51, 54),
    ];
    const nameless = rows.filter(
      ({ id, tests }) => ofController.includes(id) && !tests.some(({ title }) => new RegExp(`\\b${id}\\b`).test(title)),
    );
    expect(nameless.map(({ id }) => id)).toEqual([]);
  });

  test("names only tests that exist", () => {
    expect(rows.flatMap((row) => faultsOf(row, read))).toEqual([]);
  });

  test("a row without a test, with one that is gone, and without a verdict is found out", () => {
    const [row] = rowsOf('| X1 | there | perhaps | `a.test.ts` "one"; `b.test.ts` "two" |');
    const [bare] = rowsOf("| W1 | there | here | nothing |");
    if (row === undefined || bare === undefined) throw new Error("the rows were not read");
    const texts: Readonly<Record<string, string>> = { "a.test.ts": "another" };
    expect(faultsOf(row, (file) => texts[file])).toEqual([
      "X1 says neither same nor ours differs",
      'X1 names "one", which a.test.ts does not have',
      "X1 names b.test.ts, which is not there",
    ]);
    expect(faultsOf(bare, () => undefined)).toEqual(["W1 names no test"]);
  });
});
