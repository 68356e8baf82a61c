/** Reasons are the stable part of every error: each that the code can give is explained in docs/errors.md. */
import path from "node:path";
import { describe, expect, test } from "vitest";
import { listFiles, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");
const inCode = /\breason: "([A-Z][A-Z0-9_]*)"/g;

/** Words in the first column of a table; one cell may hold several. */
const documented = new Set(
  readText(root, "docs/errors.md")
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .flatMap((line) => [...(line.split("|")[1] ?? "").matchAll(/`([A-Z][A-Z0-9_]*)`/g)].map(([, word]) => word)),
);

const sources = ["services", "packages/csi/src", "packages/shared/src"]
  .flatMap((folder) => listFiles(root, folder, /\.ts$/))
  .filter((file) => /\/src\//.test(file) && !/\.test\.ts$|\/gen\/|\/testing\//.test(file));

const given = sources.flatMap((file) =>
  [...readText(root, file).matchAll(inCode)].map(([, reason = ""]) => ({ file, reason })),
);

describe("every reason in the code", () => {
  test("is found: the pattern still fits how errors are written", () => {
    const reasons = new Set(given.map(({ reason }) => reason));
    expect([...reasons]).toEqual(expect.arrayContaining(["VOLUME_NOT_FOUND", "NODE_CONFLICT", "OVERLOADED"]));
    expect(documented.size).toBeGreaterThan(40);
  });

  test("is a row of docs/errors.md", () => {
    const missing = given.filter(({ reason }) => !documented.has(reason));
    expect(missing.map(({ file, reason }) => `${reason} in ${file}`)).toEqual([]);
  });
});
