/**
 * What an error, a block or a finding tells a person to run has to be a command that there is. Every `holdfast …` in the words of the
 * services and in docs/errors.md is held against the table of the command line.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { commands } from "@holdfast/cli/commands/commands";
import { expect, test } from "vitest";
import { listFiles, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");

/** In the API, and not on the command line yet. */
const notYet = new Set(["node fence", "repair clear-bar"]);

const paths = new Set(commands.map(({ path: words }) => words.join(" ")));
const subjects = new Set(commands.map(({ path: [subject = ""] }) => subject));

/** What ciphertexts are bound to; nobody reads it. */
const isLabel = (line: string): boolean => /holdfast (?:secret v|wrap)/.test(line);

/** Words after `holdfast` in text for people: a subject and, unless it is a command itself, what to do with it. */
const said = (text: string): readonly string[] =>
  [...text.matchAll(/\bholdfast ([a-z-]+)(?: ([a-z-]+))?/g)].flatMap(([, subject = "", verb = ""]) =>
    subjects.has(subject) && paths.has(subject) ? [subject] : [`${subject} ${verb}`.trim()],
  );

const words = async (): Promise<readonly { readonly file: string; readonly command: string }[]> => {
  const sources = ["services/controller/src", "services/node-agent/src"].flatMap((dir) =>
    listFiles(root, dir, /\.ts$/),
  );
  const own = sources.filter((file) => !file.endsWith(".test.ts") && !file.includes("/testing/"));
  const found = own.flatMap((file) =>
    readText(root, file)
      .split("\n")
      // Comments and paths of modules say nothing to a person.
      .filter((line) => !isLabel(line) && !/^\s*(?:\/\/|\*|\/\*|import )/.test(line))
      .flatMap((line) => said(line).map((command) => ({ file, command }))),
  );
  const errors = await readFile(path.join(root, "docs/errors.md"), "utf8");
  const listed = [...errors.matchAll(/`(holdfast [^`]*)`/g)].flatMap(([, text = ""]) => said(text));
  return [...found, ...listed.map((command) => ({ file: "docs/errors.md", command }))];
};

test("every command that people are told to run exists", async () => {
  const told = await words();
  expect(told.length).toBeGreaterThan(20);
  expect(told.filter(({ command }) => !paths.has(command) && !notYet.has(command))).toEqual([]);
});
