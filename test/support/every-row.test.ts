import { expect, test } from "vitest";
import { everyRow } from "./every-row.ts";

const even = async (row: number) => expect(row % 2).toBe(0);

test("rows that all hold pass", () => everyRow([2, 4], String, even));

test("the failure names each row that does not hold, and only those", async () => {
  const error = await everyRow([1, 2, 3], (row) => `row ${row}`, even).catch((thrown: unknown) => thrown);
  expect(String(error)).toMatch(/^Error: row 1: expected 1 to be .*\nrow 3: expected 1 to be /);
  expect(String(error)).not.toContain("row 2");
});

test("a table without rows fails: nothing was looked at", () => expect(everyRow([], String, even)).rejects.toThrow());
