/** The table of commands itself: each has help, an example that parses, a golden answer, and its place in docs/cli.md. */

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { commandSources } from "@holdfast/cli/commands/commands";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import { oneOption } from "@holdfast/cli/frame/one-answer";
import { describe, expect, test } from "vitest";
import { childEnvironment } from "../support/child-environment.ts";
import { everyRow } from "../support/every-row.ts";
import { meantCommand } from "../support/meant-command.ts";
import { cliRun } from "./cli-run.ts";

const commands = await loadCommands(commandSources);

const program = path.resolve(import.meta.dirname, "../../packages/cli/bin/holdfast.mjs");
const folder = path.resolve(import.meta.dirname, "golden");
const page = readFileSync(path.resolve(import.meta.dirname, "../../docs/cli.md"), "utf8");
const goldens = readdirSync(folder)
  .filter((name) => name.endsWith(".txt"))
  .map((name) => readFileSync(path.join(folder, name), "utf8").split("\n")[0] ?? "");

/** As a shell would part it. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");

type Command = (typeof commands)[number];
const nameOf = (command: Command): string => command.path.join(" ");

describe("every command", () => {
  const examplesMeanIt = async (command: Command) => {
    expect(command.examples.length).toBeGreaterThan(0);
    for (const { line } of command.examples) {
      const start = line.indexOf("holdfast ");
      const meant = await meantCommand(wordsOf(line.slice(start).replace(/\)$/, "")).slice(1));
      expect(meant?.path, line).toEqual(command.path);
    }
  };
  test("has examples that are lines that mean it", () => everyRow(commands, nameOf, examplesMeanIt));

  const hasHelp = async (command: Command) => {
    const { code, out } = await cliRun([...command.path, "--help"]);
    expect(code).toBe(0);
    expect(out).toContain(command.summary);
    expect(out).toContain(command.examples[0]?.line);
    for (const { name } of command.args ?? []) expect(out).toContain(name);
  };
  test("has help with its summary and an example", () => everyRow(commands, nameOf, hasHelp));

  const hasGolden = (command: Command) =>
    expect(goldens.filter((line) => line.startsWith(`$ holdfast ${nameOf(command)}`))).not.toEqual([]);
  test("has a golden answer", () => everyRow(commands, nameOf, hasGolden));

  const ones = commands.filter(({ options }) => options?.includes(oneOption));
  const hasForms = async (command: Command) => {
    // A command with -o name has to tell names.
    expect(command.run.toString()).toContain("answerOne");
    for (const form of ["wide", "columns=ID", "table", ""]) {
      const { code, out, err } = await cliRun([...command.path, "-o", form], { address: "127.0.0.1:1" });
      expect([code, out]).toEqual([2, ""]);
      expect(err).toContain("Allowed choices are json, yaml, name.");
    }
  };
  test("that answers one object has its forms, and refuses those of a list before it asks", () => {
    expect(ones.length).toBeGreaterThan(20);
    return everyRow(ones, nameOf, hasForms);
  });
  const hasOption = (command: Command) => expect(ones).toContain(command);
  test("that answers one object takes -o", () =>
    everyRow(
      commands.filter(({ run }) => run.toString().includes("answerOne")),
      nameOf,
      hasOption,
    ));

  const standsInPage = (command: Command) => expect(page).toContain(`### ${nameOf(command)}\n`);
  test("stands in docs/cli.md", () => everyRow(commands, nameOf, standsInPage));
});

test("a real bash completes with the script that it is given", () => {
  const script = [
    'holdfast() { "$NODE" "$PROGRAM" "$@"; }',
    "source <(holdfast completion bash)",
    "complete -p holdfast",
    "COMP_WORDS=(holdfast volume st); COMP_CWORD=2; _holdfast",
    `echo "\${COMPREPLY[*]}"`,
  ].join("\n");
  const env = { ...childEnvironment(), HOME: "/nonexistent", NODE: process.execPath, PROGRAM: program };
  const { stdout, stderr } = spawnSync("bash", ["-c", script], { encoding: "utf8", env });
  expect(stdout, stderr).toBe("complete -F _holdfast holdfast\nstats status\n");
});

test("a tree without its packages or its generated code: one line with the command, and no stack", () => {
  const tree = mkdtempSync(path.join(os.tmpdir(), "hf-bare-"));
  const bin = path.join(tree, "packages/cli/bin");
  const ends = () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(bin, "holdfast.mjs"), "--version"], {
      encoding: "utf8",
      env: childEnvironment(),
    });
    return { status, stdout, stderr: stderr.replaceAll(realpathSync(tree), "<tree>") };
  };
  const says = (line: string) => ({ status: 2, stdout: "", stderr: `holdfast: ${line}\n` });
  try {
    mkdirSync(bin, { recursive: true });
    copyFileSync(program, path.join(bin, "holdfast.mjs"));
    expect(ends()).toEqual(says("the folder node_modules is missing; run this first: (cd <tree>/ && npm ci)"));
    mkdirSync(path.join(tree, "node_modules"));
    expect(ends()).toEqual(says("the generated code is missing; run this first: (cd <tree>/ && npm run generate)"));
  } finally {
    rmSync(tree, { recursive: true });
  }
});

test("nothing listens: said with the address and how to change it, exit 5", async () => {
  const { code, err } = await cliRun(["volume", "list", "--timeout", "2s"], { address: "127.0.0.1:1" });
  expect(code).toBeGreaterThanOrEqual(5);
  expect(err).toContain("Is a controller listening on 127.0.0.1:1? Set --address, HOLDFAST_ADDRESS");
});

test("settings: option before environment before file", async () => {
  const file = "/home/ada/.config/holdfast/config.yaml";
  const asked = async (more: { readonly args?: readonly string[]; readonly env?: string; readonly file?: string }) => {
    const { code, err } = await cliRun(["volume", "list", "--timeout", "2s", ...(more.args ?? [])], {
      env: more.env === undefined ? {} : { HOLDFAST_ADDRESS: more.env },
      files: more.file === undefined ? {} : { [file]: `address: ${more.file}\n` },
    });
    expect(code).toBeGreaterThanOrEqual(5);
    return /Is a controller listening on (\S+)\?/.exec(err)?.[1];
  };
  const args = ["--address", "127.0.0.1:3"];
  expect(await asked({ file: "127.0.0.1:1" })).toBe("127.0.0.1:1");
  expect(await asked({ file: "127.0.0.1:1", env: "127.0.0.1:2" })).toBe("127.0.0.1:2");
  expect(await asked({ file: "127.0.0.1:1", env: "127.0.0.1:2", args })).toBe("127.0.0.1:3");
});

test("settings: every mistake at once", async () => {
  const files = {
    "/home/ada/.config/holdfast/config.yaml": "address: nowhere\nnamespace: x\ncolor: never\ntimeout: 3\n",
  };
  const wrong = await cliRun(["volume", "list"], { files });
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain("color: there is no such setting");
  expect(wrong.err).toContain("timeout: has to be a string");
  const worse = await cliRun(["volume", "list", "--colour", "green"], {
    env: { HOLDFAST_ADDRESS: "nowhere", HOLDFAST_TIMEOUT: "3" },
  });
  expect(worse.err).toContain('timeout "3"');
  expect(worse.err).toContain('colour "green"');
  expect(worse.err).toContain("nowhere");
});
