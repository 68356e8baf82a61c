/** `npm run docs` writes the pages that are made from the code; with --check it only says which of them are old. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { cliPage } from "./cli-page.ts";
import { licencesPage } from "./licences-page.ts";
import { referencePages } from "./reference-pages.ts";
import { settingsPage } from "./settings-page.ts";

const root = path.resolve(import.meta.dirname, "../..");
const check = process.argv.includes("--check");

const pages = new Map([
  ["docs/cli.md", cliPage()],
  ["docs/settings.md", settingsPage()],
  ["docs/licences.md", licencesPage(root)],
  ...referencePages(root),
]);

const current = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
};

const old = [...pages].filter(([name, text]) => current(path.join(root, name)) !== text);
for (const [name, text] of check ? [] : old) {
  mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
  writeFileSync(path.join(root, name), text);
}
for (const [name] of old) console.log(check ? `${name} is not what the code says: npm run docs` : `${name} written`);
process.exit(check && old.length > 0 ? 1 : 0);
