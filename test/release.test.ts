/** One version in the whole tree, and a release has its section in the changelog before it has its tag. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import { createMetrics } from "@holdfast/shared/metrics";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "..");
/** Plain JavaScript, as all of scripts/: it runs before anything is installed. */
const { otherVersions, releaseProblems, versionOf, writeRelease } = (await import(
  path.join(root, "scripts/release.mjs")
)) as {
  readonly otherVersions: (tree: string, version: string) => readonly string[];
  readonly releaseProblems: (tree: string, version: string) => readonly string[];
  readonly versionOf: (tree: string) => string;
  readonly writeRelease: (tree: string, version: string, date: string) => void;
};

const packages = (
  JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, unknown>>;
  }
).packages;
const manifests = Object.keys(packages)
  .filter((name) => !name.includes("node_modules/"))
  .map((name) => path.join(name, "package.json"));
const named = [
  ...manifests,
  "package-lock.json",
  "Dockerfile",
  "deploy/nomad/holdfast",
  "packages/shared/src/holdfast-version.ts",
];

let tree: string;
const read = (file: string): string => readFileSync(path.join(tree, file), "utf8");
const write = (file: string, text: string): void => {
  mkdirSync(path.dirname(path.join(tree, file)), { recursive: true });
  writeFileSync(path.join(tree, file), text);
};
const changelog = `# Changelog

## Unreleased

### Added

- Something.

### Protocol baseline

Every change has its line here.

- first (\`sha256:00\`)
`;

beforeEach(() => {
  tree = mkdtempSync(path.join(os.tmpdir(), "holdfast-release-"));
  for (const file of named) {
    mkdirSync(path.dirname(path.join(tree, file)), { recursive: true });
    cpSync(path.join(root, file), path.join(tree, file));
  }
  write("CHANGELOG.md", changelog);
});
afterEach(() => rmSync(tree, { recursive: true, force: true }));

test("every place of this tree names the version that the services tell", () => {
  expect(manifests.length).toBeGreaterThan(6);
  expect(versionOf(root)).toBe(holdfastVersion);
  expect(otherVersions(root, holdfastVersion)).toEqual([]);
});

test("every service tells its version with its metrics", async () => {
  const text = await createMetrics({ process: true }).text();
  expect(text).toContain(`holdfast_build_info{version="${holdfastVersion}"} 1`);
});

describe("a release", () => {
  test("is written everywhere, and its section is what was unreleased", () => {
    writeRelease(tree, "7.8.9", "2026-01-31");
    expect(releaseProblems(tree, "7.8.9")).toEqual([]);
    for (const file of named) expect([file, read(file).includes("7.8.9")]).toEqual([file, true]);
    expect(read("CHANGELOG.md")).toBe(
      changelog.replace(
        "## Unreleased\n",
        "## Unreleased\n\n### Protocol baseline\n\nEvery change has its line here.\n\n## 7.8.9 (2026-01-31)\n",
      ),
    );
  });

  test("leaves package files as npm writes them", () => {
    const before = read("package-lock.json");
    writeRelease(tree, "7.8.9", "2026-01-31");
    writeRelease(tree, holdfastVersion, "2026-02-01");
    expect(read("package-lock.json")).toBe(before);
  });

  test.each(named)("is found unfinished by %s alone", (file) => {
    const before = read(file);
    writeRelease(tree, "7.8.9", "2026-01-31");
    write(file, before);
    const problems = releaseProblems(tree, "7.8.9");
    expect(problems.length).toBeGreaterThan(0);
    for (const problem of problems) expect(problem).toContain(`${file}`);
  });

  test.each([
    ["without a section", changelog, /no section "## 7\.8\.9/],
    ["whose section has no date", changelog.replace("## Unreleased", "## 7.8.9"), /has no date/],
    [
      "whose section is empty",
      "# Changelog\n\n## 7.8.9 (2026-01-31)\n\n## 0.1.0 (2026-01-01)\n\n- A.\n",
      /says nothing/,
    ],
    [
      "whose section has a baseline alone",
      changelog.replace("## Unreleased", "## 7.8.9 (2026-01-31)").replace("- Something.\n", ""),
      /says nothing/,
    ],
    ["beside lines that are unreleased", `${changelog}\n## 7.8.9 (2026-01-31)\n\n- A.\n`, /under Unreleased/],
  ])("is refused %s", (_what, text, problem) => {
    writeRelease(tree, "7.8.9", "2026-01-31");
    write("CHANGELOG.md", text);
    expect(releaseProblems(tree, "7.8.9")).toEqual([expect.stringMatching(problem)]);
  });

  test("is refused by a word that is no version, and a second time", () => {
    expect(releaseProblems(tree, "v1")).toHaveLength(1);
    expect(() => writeRelease(tree, "v1", "2026-01-31")).toThrow("no version");
    writeRelease(tree, "7.8.9", "2026-01-31");
    expect(() => writeRelease(tree, "7.8.9", "2026-01-31")).toThrow("already");
  });
});
