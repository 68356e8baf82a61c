import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { childMark } from "./run-tool.ts";
import { endStrayChildren } from "./stray-children.ts";

const signal = new AbortController().signal;
const started: ChildProcess[] = [];
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-stray-"));
});
afterEach(async () => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
  await rm(dir, { recursive: true, force: true });
});

const child = async (env: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<ChildProcess> => {
  const [program = "sleep", ...rest] = args;
  const made = spawn(program, rest.length === 0 ? ["600"] : rest, { env: { PATH: process.env["PATH"], ...env } });
  started.push(made);
  await once(made, "spawn");
  return made;
};

it("ends the children of this state directory, those of them too, and nobody else", async () => {
  const marked = await child({ [childMark]: dir });
  const deaf = await child({ [childMark]: dir }, "sh", "-c", "trap '' TERM; sleep 600; sleep 600");
  const others = [
    await child({ [childMark]: `${dir}2` }),
    await child({ [`X${childMark}`]: dir }),
    await child({ X: dir }),
  ];
  const ended = await endStrayChildren(dir, signal);
  expect(ended.map(({ pid }) => pid)).toEqual(expect.arrayContaining([marked.pid, deaf.pid]));
  expect(ended.length).toBeGreaterThanOrEqual(3);
  expect(ended.map(({ command }) => command)).toContain("sleep");
  expect(
    others.map(({ exitCode, signalCode, pid }) => [exitCode, signalCode, ended.some((it) => it.pid === pid)]),
  ).toEqual(others.map(() => [null, null, false]));
  expect(await endStrayChildren(dir, signal)).toEqual([]);
});

it("does not end the process that asks, though it may carry the mark itself", async () => {
  const own = await child({ [childMark]: dir });
  expect(await endStrayChildren(dir, signal, { self: own.pid ?? 0 })).toEqual([]);
  expect([own.exitCode, own.signalCode]).toEqual([null, null]);
});

it("does not go on while one cannot die, and names it", async () => {
  // A pid beyond what the kernel gives out: there, and not to be killed.
  const proc = path.join(dir, "proc");
  await mkdir(path.join(proc, "99999999"), { recursive: true });
  await mkdir(path.join(proc, "self"));
  await writeFile(path.join(proc, "99999999/environ"), `A=b\0${childMark}=${dir}\0`);
  await writeFile(path.join(proc, "99999999/comm"), "mkfs.ext4\n");
  const controller = new AbortController();
  const ending = endStrayChildren(dir, controller.signal, { proc });
  setTimeout(() => controller.abort(), 50);
  await expect(ending).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringMatching(new RegExp(`still work on ${dir}.*mkfs.ext4 \\(pid 99999999\\)`)),
  });
});
