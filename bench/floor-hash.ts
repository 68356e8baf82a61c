/** Which floor the ratios are against: the names and contents of the files of bench/floor, in the order of their names. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

export const floorDir = path.join(import.meta.dirname, "floor");

export const floorHash = (directory = floorDir): string => {
  const hash = createHash("sha256");
  for (const { name, parentPath } of readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .toSorted((a, b) => (path.join(a.parentPath, a.name) < path.join(b.parentPath, b.name) ? -1 : 1))) {
    const file = path.join(parentPath, name);
    const content = readFileSync(file);
    hash.update(`${path.relative(directory, file)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
};
