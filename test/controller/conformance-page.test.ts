/** docs/conformance.md names a test for each assertion, docs/real-drivers.md for each finding; here they have to exist. */
import path from "node:path";
import { expect, test } from "vitest";
import { readText } from "../support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "../..");

const idsIn = (cell: string): readonly number[] =>
  cell.split(", ").flatMap((part) => {
    const [first = 0, last = first] = [...part.matchAll(/C(\d+)/g)].map(([, id]) => Number(id));
    return Array.from({ length: last - first + 1 }, (_, n) => first + n);
  });

const rowsOf = (page: string, letter: string) =>
  readText(root, page)
    .split("\n")
    .filter((line) => line.startsWith(`| ${letter}`) && /^\| \w\d/.test(line))
    .map((line) => line.split("|").map((cell) => cell.trim()))
    .map(([, ids = "", , named = ""]) => ({
      ids,
      tests: [...named.matchAll(/`([^`]+)` "([^"]+)"/g)].map(([, file = "", title = ""]) => ({ file, title })),
    }));
const rows = rowsOf("docs/conformance.md", "C");
const findings = rowsOf("docs/real-drivers.md", "D");

test("every assertion that touches the controller has a row, once", () => {
  const wanted = [...Array.from({ length: 17 }, (_, n) => n + 2), ...Array.from({ length: 61 }, (_, n) => n + 22)];
  expect(rows.flatMap(({ ids }) => idsIn(ids)).sort((a, b) => a - b)).toEqual(wanted);
});

test("every row names tests that exist", () => {
  expect(findings.length).toBeGreaterThan(10);
  const faults = [...rows, ...findings].flatMap(({ ids, tests }) => [
    ...(tests.length === 0 ? [`${ids} names no test`] : []),
    ...tests.flatMap(({ file, title }) => {
      try {
        return readText(root, file).includes(title) ? [] : [`${ids}: ${file} has no test "${title}"`];
      } catch {
        return [`${ids}: ${file} is not there`];
      }
    }),
  ]);
  expect(faults).toEqual([]);
});
