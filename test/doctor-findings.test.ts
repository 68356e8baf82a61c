/** Every kind of finding stands in docs/doctor.md, and a test plants it. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "..");
const filesIn = (folder: string): readonly string[] =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" }).map((name) =>
    path.join(root, folder, name),
  );

const sources = [
  "packages/shared/src/doctor",
  "packages/cli/src/doctor",
  "services/controller/src/doctor",
  "services/node-agent/src/doctor",
]
  .flatMap(filesIn)
  .concat(path.join(root, "services/controller/src/doctor-wiring.ts"))
  .filter((file) => file.endsWith(".ts"));
const code = sources.filter((file) => !file.endsWith(".test.ts")).map((file) => readFileSync(file, "utf8"));
const tests = [...sources.filter((file) => file.endsWith(".test.ts")), path.join(root, "test/cli/doctor.test.ts")]
  .map((file) => readFileSync(file, "utf8"))
  .join("\n");
const ids = [
  ...new Set(
    code.flatMap((text) => [...text.matchAll(/\b(?:fault|warning)\(\s*"([a-z-]+)"/g)].map(([, id]) => id ?? "")),
  ),
].sort();
const page = readFileSync(path.join(root, "docs/doctor.md"), "utf8");

test("there are kinds to look for", () => {
  expect(ids.length).toBeGreaterThan(25);
});

test.each(ids)("%s stands in docs/doctor.md and is planted by a test", (id) => {
  expect(page).toContain(`| \`${id}\` |`);
  // With its level before it, in some.
  expect(tests.includes(`"${id}"`) || tests.includes(` ${id}"`), id).toBe(true);
});
