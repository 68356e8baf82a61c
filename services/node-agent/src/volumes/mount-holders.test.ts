import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createHolderSearch } from "./mount-holders.ts";

const find = createHolderSearch("/proc");
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-holders-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const started = (child: ChildProcess): number => {
  onTestFinished(() => void child.kill("SIGKILL"));
  return child.pid ?? 0;
};

test("nobody uses it: nothing is found, this process left out", async () => {
  expect(await find(dir)).toBeUndefined();
  expect(await find(process.cwd())).not.toMatchObject({ pid: process.pid });
});

test("a process that works there, and one that has a file of it open", async () => {
  const there = started(spawn("sleep", ["60"], { cwd: dir }));
  await expect.poll(() => find(dir)).toEqual({ path: dir, pid: there, command: "sleep" });
  const file = path.join(dir, "open");
  await writeFile(file, "");
  const open = started(spawn("sh", ["-c", `exec sleep 60 < ${file}`]));
  await expect.poll(() => find(file)).toEqual({ path: file, pid: open, command: "sleep" });
});

test("a name that only begins the same is another place", async () => {
  started(spawn("sleep", ["60"], { cwd: dir }));
  await expect.poll(() => find(dir)).toMatchObject({ command: "sleep" });
  expect(await find(dir.slice(0, -1))).toBeUndefined();
});
