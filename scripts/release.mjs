// The one place that knows where the version of a release stands, and what CHANGELOG.md says of a release.
//
//   npm run release -- 0.2.0           writes the version, and makes the section of what was unreleased
//   npm run release -- --check 0.2.0   says what keeps this tree from being tagged v0.2.0
//
// It commits nothing and tags nothing.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { root } from "./paths.mjs";
import { Problem, reportFailure } from "./problem.mjs";

const versionForm = /^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/;
const unreleased = "## Unreleased\n";
/** The list of the protocol's baselines goes on in each section: scripts/api-baseline.mjs writes below the first of these. */
const baselines = /^### Protocol baseline\n\n[^\n]*\n/m;

/** Files where the version is part of a line of text. */
const lines = {
  "packages/shared/src/holdfast-version.ts": /(?<=holdfastVersion = ")[^"]*/,
  Dockerfile: /(?<=org\.opencontainers\.image\.version=")[^"]*/,
  "deploy/nomad/holdfast": /(?<="version": ")[^"]*/,
};

const read = (tree, file) => readFileSync(path.join(tree, file), "utf8");
const readJson = (tree, file) => JSON.parse(read(tree, file));

/** Everything in the tree that names the release: where, which version, and how to write another one. */
function places(tree) {
  const lock = readJson(tree, "package-lock.json");
  const own = Object.keys(lock.packages).filter((name) => !/(^|\/)node_modules\//.test(name));
  const manifests = own.map((name) => path.posix.join(name, "package.json"));
  const inPackage = (file, found, where) => [
    { file, where, version: found.version, write: (to) => Object.assign(found, { version: to }) },
    ...["dependencies", "devDependencies"].flatMap((kind) =>
      Object.keys(found[kind] ?? {})
        .filter((name) => name.startsWith("@holdfast/"))
        .map((name) => ({
          file,
          where: `${where}${name}`,
          version: found[kind][name],
          write: (to) => Object.assign(found[kind], { [name]: to }),
        })),
    ),
  ];
  const texts = Object.entries(lines).map(([file, pattern]) => {
    const text = { now: read(tree, file) };
    return {
      place: {
        file,
        where: "",
        version: pattern.exec(text.now)?.[0] ?? "",
        write: (to) => Object.assign(text, { now: text.now.replace(pattern, to) }),
      },
      content: () => text.now,
    };
  });
  const documents = manifests.map((file) => ({ file, json: readJson(tree, file) }));
  return {
    list: [
      ...texts.map(({ place }) => place),
      ...documents.flatMap(({ file, json }) => inPackage(file, json, "")),
      {
        file: "package-lock.json",
        where: "",
        version: lock.version,
        write: (to) => Object.assign(lock, { version: to }),
      },
      ...own.flatMap((name) => inPackage("package-lock.json", lock.packages[name], `${name || "the root"} `)),
    ],
    save() {
      for (const { place, content } of texts) writeFileSync(path.join(tree, place.file), content());
      for (const { file, json } of [...documents, { file: "package-lock.json", json: lock }])
        writeFileSync(path.join(tree, file), `${JSON.stringify(json, undefined, 2)}\n`);
    },
  };
}

/** The version of the tree: what the services say of themselves. */
export const versionOf = (tree) =>
  lines["packages/shared/src/holdfast-version.ts"].exec(read(tree, "packages/shared/src/holdfast-version.ts"))?.[0] ??
  "";

/** Where another version stands than `version`. */
export const otherVersions = (tree, version) =>
  places(tree)
    .list.filter((place) => place.version !== version)
    .map(({ file, where, version: found }) => `${file}${where === "" ? "" : ` (${where.trim()})`} says ${found}`);

/** The text below the heading of a release, or undefined. */
const sectionOf = (changelog, version) =>
  changelog
    .split(/^(?=## )/m)
    .find(
      (part) => part.startsWith(`## ${version} (`) || part === `## ${version}` || part.startsWith(`## ${version}\n`),
    );

const hasLines = (section) => /^- /m.test(section.replace(/^### Protocol baseline\n[\s\S]*/m, ""));

/** What keeps the tree from being tagged as this release. */
export function releaseProblems(tree, version) {
  if (!versionForm.test(version)) return [`"${version}" is no version: MAJOR.MINOR.PATCH`];
  const problems = otherVersions(tree, version);
  const changelog = read(tree, "CHANGELOG.md");
  const section = sectionOf(changelog, version);
  if (section === undefined) problems.push(`CHANGELOG.md has no section "## ${version} (DATE)"`);
  else {
    if (!/^## \S+ \(\d{4}-\d{2}-\d{2}\)\n/.test(section))
      problems.push(`CHANGELOG.md: the heading of ${version} has no date: "## ${version} (2026-01-31)"`);
    if (!hasLines(section)) problems.push(`CHANGELOG.md: the section of ${version} says nothing`);
  }
  const open = sectionOf(changelog, "Unreleased");
  if (open !== undefined && section !== undefined && hasLines(open))
    problems.push(`CHANGELOG.md has lines under Unreleased: they belong to ${version}, or to a later commit`);
  return problems;
}

/** Writes the version everywhere, and makes the section of the release from what was unreleased. */
export function writeRelease(tree, version, date) {
  if (!versionForm.test(version)) throw new Problem(`"${version}" is no version: MAJOR.MINOR.PATCH`, 64);
  const changelog = read(tree, "CHANGELOG.md");
  if (sectionOf(changelog, version) !== undefined)
    throw new Problem(`CHANGELOG.md has a section ${version} already`, 64);
  if (!changelog.includes(unreleased)) throw new Problem(`CHANGELOG.md has no heading "${unreleased.trim()}"`);
  const words = baselines.exec(changelog)?.[0] ?? "";
  const all = places(tree);
  for (const place of all.list) place.write(version);
  all.save();
  const opened = [unreleased, words, `## ${version} (${date})\n`].filter((part) => part !== "").join("\n");
  writeFileSync(
    path.join(tree, "CHANGELOG.md"),
    changelog.replace(unreleased, () => opened),
  );
}

function main([first, second]) {
  const checking = first === "--check";
  const version = checking ? (second ?? versionOf(root)) : first;
  if (version === undefined) throw new Problem("name the version: npm run release -- [--check] MAJOR.MINOR.PATCH", 64);
  if (!checking) writeRelease(root, version, new Date().toISOString().slice(0, 10));
  const problems = releaseProblems(root, version);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) throw new Problem(`this tree is not release ${version}`);
  console.log(
    checking
      ? `this tree is release ${version}`
      : `this tree is release ${version} now: read the section, then commit and tag v${version}`,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    process.exitCode = reportFailure(error);
  }
}
