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

export interface ShippedPackage {
  /** From the root, as the lock file says. */
  readonly place: string;
  readonly name: string;
  readonly version: string;
  readonly licence: string;
}

/** The packages that an installation without tools holds, as the lock file has them. The bundle has no code but theirs and our own. */
export const shippedPackages = (root: string): readonly ShippedPackage[] => {
  const lock = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  return Object.entries(lock.packages).flatMap(([place, { version = "", license = "", dev, optional, link }]) => {
    const name = place.split("node_modules/").at(-1) ?? "";
    if (!place.includes("node_modules/") || dev === true || optional === true || link === true) return [];
    const unknown = wordsOf(license).filter((word) => !accepted.has(word));
    if (unknown.length > 0)
      throw new Error(`${name} ${version} has the licence "${license}", which nobody has accepted`);
    return [{ place, name, version, licence: license }];
  });
};

export const licencesPage = (root: string): string =>
  [
    "# Licences",
    "",
    "Made from the lock file (`npm run docs`). Holdfast is under Apache-2.0. What is shipped has code of these packages, and their licences in `THIRD-PARTY-LICENCES`.",
    "A package with another licence than those in this table stops `npm run docs`. `npm run --silent sbom` prints the same as CycloneDX.",
    "",
    "| package | version | licence |",
    "|---|---|---|",
    ...shippedPackages(root).map(({ name, version, licence }) => `| ${name} | ${version} | ${licence} |`),
    "",
  ].join("\n");
