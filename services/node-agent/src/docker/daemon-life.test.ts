import { mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createDaemonLife } from "./daemon-life.ts";

test("dockerd is another one when its pid file was written anew, also with the same pid, and unknown without one", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-pid-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const file = path.join(dir, "docker.pid");
  const life = createDaemonLife(file);
  expect(await life()).toBe("");
  await writeFile(file, "12");
  await utimes(file, 1_000, 1_000);
  const first = await life();
  expect(first).not.toBe("");
  expect(await life()).toBe(first);
  await writeFile(file, "12");
  await utimes(file, 1_000, 1_001);
  const second = await life();
  expect(second).not.toBe(first);
  await writeFile(file, "13");
  await utimes(file, 1_000, 1_001);
  expect(await life()).not.toBe(second);
  await rm(file);
  expect(await life()).toBe("");
});
