import { expect, test } from "vitest";
import { tableText } from "./tables.ts";

interface Row {
  readonly name: string;
  readonly path: string;
}
const columns = [
  { title: "NAME", of: ({ name }: Row) => name },
  { title: "PATH", of: ({ path }: Row) => path },
];
const row = { name: "web-1", path: `/var/lib/holdfast/publish/${"a".repeat(64)}/${"b".repeat(64)}` };
const linesOf = (text: string): readonly string[] => text.split("\n");

test("without a width nothing is cut", () => {
  expect(tableText(columns, [row])).toContain(row.path);
});

test("a path that is too wide for a terminal loses its middle, and the table fits", () => {
  const [, line = ""] = linesOf(tableText(columns, [row], 80));
  expect(line.length).toBe(80);
  expect(line).toMatch(/^web-1 +\/var\/lib\/holdfast\/publish\/a+…b+$/);
});

test("other text loses its end, the widest column first, and no column is narrower than its title", () => {
  const long = { name: "n".repeat(30), path: "p".repeat(60) };
  expect(linesOf(tableText(columns, [long], 60))[1]).toBe(`${"n".repeat(28)}…  ${"p".repeat(28)}…`);
  expect(linesOf(tableText(columns, [long], 5))[1]).toBe(`${"n".repeat(7)}…  ${"p".repeat(7)}…`);
});

test("a table that fits is left alone", () => {
  expect(tableText(columns, [{ name: "web-1", path: "/a" }], 80)).toBe(
    tableText(columns, [{ name: "web-1", path: "/a" }]),
  );
});
