import { readFileSync } from "node:fs";
import path from "node:path";

interface Locked {
  readonly version?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly link?: boolean;
}

/** Licences that what is shipped may have: each lets the product be used and passed on under its own, Apache-2.0. */
const accepted: ReadonlySet<string> = new Set(["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"]);

const wordsOf = (licence: string): readonly string[] => licence.replace(/[()]/g, "").split(/ (?:AND|OR) /);

/** The packages that an image or an installation without tools holds, as the lock file has them. */
const shipped = (root: string): readonly (readonly [name: string, version: string, licence: string])[] => {
  const lock = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  return Object.entries(lock.packages).flatMap(([place, { version = "", license = "", dev, optional, link }]) => {
    const name = place.split("node_modules/").at(-1) ?? "";
    if (!place.includes("node_modules/") || dev === true || optional === true || link === true) return [];
    const unknown = wordsOf(license).filter((word) => !accepted.has(word));
    if (unknown.length > 0)
      throw new Error(`${name} ${version} has the licence "${license}", which nobody has accepted`);
    return [[name, version, license] as const];
  });
};

export const licencesPage = (root: string): string =>
  [
    "# Licences",
    "",
    "Made from the lock file (`npm run docs`). Holdfast is under Apache-2.0. Images and installations without tools hold these packages.",
    "A package with another licence than those in this table stops `npm run docs`. `npm run --silent sbom` prints the same as CycloneDX.",
    "",
    "| package | version | licence |",
    "|---|---|---|",
    ...shipped(root).map(([name, version, licence]) => `| ${name} | ${version} | ${licence} |`),
    "",
  ].join("\n");
