/** docs/metrics.md has a row for each metric of the services, with its very labels, and none for others. */
import path from "node:path";
import { expect, test } from "vitest";
import { listFiles, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");
const metric = /\bname: "((?:holdfast|csi)_[a-z0-9_]+)"(?:(?!\bname: ")[\s\S])*?(?=metrics\.|\n\}|\bcollect)/g;
const labelsOf = (text: string): string =>
  [.../"([a-z_]+)"/g[Symbol.matchAll](/labels: \[([^\]]*)\]/.exec(text)?.[1] ?? "")].map(([, name]) => name).join(", ");

const sources = ["services", "packages/csi/src", "packages/shared/src"]
  .flatMap((folder) => listFiles(root, folder, /\.ts$/))
  .filter((file) => /\/src\//.test(file) && !/\.test\.ts$|\/gen\/|\/testing\//.test(file))
  .map((file) => readText(root, file));
const inCode = sources
  .flatMap((text) => [...text.matchAll(metric)])
  .map(([text, name = ""]) => `${name}(${labelsOf(text)})`);

const onPage = readText(root, "docs/metrics.md")
  .split("\n")
  .filter((line) => /^\| `(?:holdfast|csi)_/.test(line))
  .map((line) => line.split("|").map((cell) => cell.trim().replaceAll("`", "")))
  .map(([, name = "", labels = "", says = ""]) => ({ key: `${name}(${labels})`, says }));

test("every metric is a row, with its labels, and says something", () => {
  expect(inCode.length).toBeGreaterThan(20);
  expect([...new Set(onPage.map(({ key }) => key))].sort()).toEqual([...new Set(inCode)].sort());
  for (const { key, says } of onPage) expect(says, key).not.toBe("");
});

test("every metric is named where it is made, so that its labels are seen", () => {
  const made = new Set(inCode.map((key) => key.replace(/\(.*/, "")));
  const named = sources.flatMap((text) => text.match(/(?<=")(?:holdfast|csi)_[a-z0-9_]+(?=")/g) ?? []);
  expect(named.filter((name) => !made.has(name))).toEqual([]);
});

test("no label names what there may be a hundred thousand of", () => {
  const labels = onPage.flatMap(({ key }) => /\((.*)\)/.exec(key)?.[1]?.split(", ") ?? []);
  for (const many of ["volume", "workload", "claim", "claim_uid", "node", "namespace", "snapshot", "secret"])
    expect(labels).not.toContain(many);
});
