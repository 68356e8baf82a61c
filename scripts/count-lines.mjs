// `npm run lines`: the lines of the product by package and first folder, so that a change can say what it adds and removes.
//
// Counted is what runs in a service or the command line. Tests, their helpers, generated code and the two plugins are not.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./paths.mjs";

const packages = [
  "services/controller",
  "services/node-agent",
  "packages/shared",
  "packages/csi",
  "packages/cli",
  "packages/model",
];
const left = /(^|\/)(gen|testing)\/|\.test\.ts$/;
const source = /\.(ts|lua)$/;

/** @returns {Map<string, {files: number, lines: number}>} by first folder; what lies in no folder is under "." */
function countPackage(name) {
  const folders = new Map();
  const from = path.join(root, name, "src");
  for (const file of readdirSync(from, { recursive: true }).sort()) {
    if (!source.test(file) || left.test(file)) continue;
    const folder = file.includes("/") ? file.slice(0, file.indexOf("/")) : ".";
    const { files, lines } = folders.get(folder) ?? { files: 0, lines: 0 };
    const text = readFileSync(path.join(from, file), "utf8");
    folders.set(folder, { files: files + 1, lines: lines + text.split("\n").length - 1 });
  }
  return folders;
}

function sum(counts) {
  return counts.reduce((a, b) => ({ files: a.files + b.files, lines: a.lines + b.lines }), { files: 0, lines: 0 });
}

function print(name, { files, lines }) {
  console.log(`${name.padEnd(32)}${String(files).padStart(6)}${String(lines).padStart(8)}`);
}

console.log(`${"".padEnd(32)}${"files".padStart(6)}${"lines".padStart(8)}`);
const totals = packages.map((name) => {
  const folders = countPackage(name);
  const total = sum([...folders.values()]);
  print(name, total);
  for (const [folder, count] of folders) print(`  ${folder}`, count);
  return total;
});
print("all", sum(totals));
