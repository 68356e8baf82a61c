/**
 * What an error, a block or a finding tells a person to run has to be a command that there is. Every `holdfast …` in the words of the
 * services and in docs/errors.md is held against the table of the command line, and every line that clears a block is parsed with it.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { commandSources } from "@holdfast/cli/commands/commands";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import { type BlockedReason, blockedFor, foreignAttachment } from "@holdfast/controller/domain/blocked";
import type { Failure } from "@holdfast/controller/domain/outcome";
import { orphanKinds, orphanRemedy } from "@holdfast/controller/domain/repair/orphan";
import type { CutRecord } from "@holdfast/controller/domain/snapshot/snapshot";
import { cutBlocked } from "@holdfast/controller/domain/snapshot/snapshot-blocked";
import { describe, expect, test } from "vitest";
import { listFiles, readText } from "./support/architecture-source.ts";
import { meantCommand } from "./support/meant-command.ts";

const commands = await loadCommands(commandSources);

const root = path.resolve(import.meta.dirname, "..");

const paths = new Set(commands.map(({ path: words }) => words.join(" ")));
const subjects = new Set(commands.map(({ path: [subject = ""] }) => subject));

/** What ciphertexts are bound to; nobody reads it. */
const isLabel = (line: string): boolean => /holdfast (?:secret v|wrap)/.test(line);

/** Words after `holdfast` in text for people: a subject and, unless it is a command itself, what to do with it. */
const said = (text: string): readonly string[] =>
  [...text.matchAll(/\bholdfast ([a-z-]+)(?: ([a-z-]+))?/g)].flatMap(([, subject = "", verb = ""]) =>
    subjects.has(subject) && paths.has(subject) ? [subject] : [`${subject} ${verb}`.trim()],
  );

const ownLines = (): readonly { readonly file: string; readonly line: string }[] =>
  ["services/controller/src", "services/node-agent/src"]
    .flatMap((dir) => listFiles(root, dir, /\.ts$/))
    .filter((file) => !file.endsWith(".test.ts") && !file.includes("/testing/"))
    .flatMap((file) =>
      readText(root, file)
        .split("\n")
        // Comments and paths of modules say nothing to a person.
        .filter((line) => !isLabel(line) && !/^\s*(?:\/\/|\*|\/\*|import )/.test(line))
        .map((line) => ({ file, line })),
    );

/** `holdfast …` as it stands, and what is made into it: `volumeCommand("repair adopt", …)`. */
const commandsIn = (line: string): readonly string[] => [
  ...said(line),
  ...[...line.matchAll(/volumeCommand\("([a-z -]+)"/g)].map(([, words = ""]) => words),
];

const errorsPage = (): Promise<string> => readFile(path.join(root, "docs/errors.md"), "utf8");

test("every command that people are told to run exists", async () => {
  const told = ownLines().flatMap(({ file, line }) => commandsIn(line).map((command) => ({ file, command })));
  const listed = [...(await errorsPage()).matchAll(/`(holdfast [^`]*)`/g)].flatMap(([, text = ""]) => said(text));
  expect(told.length).toBeGreaterThan(30);
  expect(listed.length).toBeGreaterThan(0);
  const all = [...told, ...listed.map((command) => ({ file: "docs/errors.md", command }))];
  expect(all.filter(({ command }) => !paths.has(command))).toEqual([]);
});

/** The command lines in a text, each up to the end of its clause. */
const linesOf = (text: string): readonly string[] =>
  [...text.matchAll(/\bholdfast [^,;)]+/g)].map(([line]) => line.trim());

/** Parses a line as a shell and the command line would; what a person has to add from their own knowledge is added. */
const understood = async (line: string): Promise<string | undefined> => {
  const [, first = "", second = ""] = line.split(" ");
  const command = commands.find(({ path: words }) => [first, `${first} ${second}`].includes(words.join(" ")));
  const own = (command?.options ?? []).filter(({ required }) => required === true);
  const added = own.flatMap(({ flags }) => [/--[a-z-]+/.exec(flags)?.[0] ?? "", "said by a person"]);
  return (await meantCommand([...line.split(" ").slice(1), ...added]))?.path.join(" ");
};

const failure = (reason: string, code?: string): Failure => ({
  reason,
  message: "it said no",
  advice: "block",
  ...(code === undefined ? {} : { code }),
});

const ofVolumes = (): readonly string[] => {
  const reasons: Readonly<Record<BlockedReason, true>> = {
    INCOMPATIBLE: true,
    NOT_AT_BACKEND: true,
    FOREIGN_ATTACHMENT: true,
    ATTACHED_ELSEWHERE: true,
    STORAGE_TAKEN: true,
    DETACH_UNPROVEN: true,
    CREDENTIALS_REFUSED: true,
    PLUGIN_REFUSED: true,
    PERMIT_REFUSED: true,
    NODE_REPLACED: true,
    NODE_SILENT: true,
    NODE_PENDING: true,
    FOREIGN_HOLD: true,
    PLUGIN_HANGS: true,
    CALL_MAY_BE_OPEN: true,
    CALL_BARRED: true,
    EXPAND_IN_USE: true,
    EXPAND_UNCERTAIN: true,
    MODIFY_UNCERTAIN: true,
    PLUGIN_AMBIGUOUS: true,
    PLACE_UNKNOWN: true,
    TOKENS_UNSIGNED: true,
    NOT_PROVEN: true,
  };
  const bare = { namespace: "default", id: "data", plugin: "csi.example" };
  const full = {
    ...bare,
    uid: "u",
    node: "n1",
    machineId: "m",
    life: "4f1c09d2b7aa",
    workload: "web",
    alias: "db",
    claimUid: "c",
    bar: "b",
  };
  return (Object.keys(reasons) as BlockedReason[])
    .flatMap((reason) => [bare, full].map((subject) => blockedFor(reason, subject, "it said no", undefined, 0)))
    .concat(foreignAttachment(full, "it said no", undefined, 0))
    .map(({ clearWith }) => clearWith);
};

const ofSnapshots = (): readonly string[] =>
  (["snapshot", "group"] as const).flatMap((kind) =>
    (["CREATING", "DELETING"] as const).flatMap((state) => {
      const record = { kind, state, namespace: "default", id: "monday", plugin: "csi.example", name: "x" } as CutRecord;
      return [
        cutBlocked(record, failure("PLUGIN_REFUSED"), 0),
        cutBlocked(record, failure("PLUGIN_REFUSED"), 0, true),
        cutBlocked(record, failure("PLUGIN_REFUSED", "UNAUTHENTICATED"), 0),
        cutBlocked(record, failure("INCOMPATIBLE"), 0),
        cutBlocked(record, failure("BACKEND_GROUP"), 0),
        cutBlocked(record, failure("PLUGIN_HANGS"), 0),
        cutBlocked(record, failure("CALL_MAY_BE_OPEN"), 0),
      ].map(({ clearWith }) => clearWith);
    }),
  );

const blankOrphan = {
  plugin: "csi.example",
  externalId: "vol-1",
  driverNodeId: "",
  sizeBytes: 0,
  detail: "",
  foundAt: 0,
  seenAt: 0,
};

const ofOrphans = (): readonly string[] =>
  orphanKinds.map((kind) =>
    orphanRemedy({ ...blankOrphan, kind, id: "4f1c", namespace: "default", volume: "data", node: "n1", path: "/x" }),
  );

describe("what clears a block", () => {
  const lines = [...new Set([...ofVolumes(), ...ofSnapshots(), ...ofOrphans()].flatMap(linesOf))];

  test("names commands", () => expect(lines.length).toBeGreaterThan(15));

  test.each(lines)("%s is a line that the command line takes, with every option in it", async (line) => {
    const words = line.split(" ").slice(1);
    expect(words.join(" ").startsWith((await understood(line)) ?? "nothing")).toBe(true);
  });

  test("an option that there is not would be found", async () => {
    await expect(understood("holdfast snapshot delete monday --forgot")).rejects.toThrow("unknown option");
  });
});
