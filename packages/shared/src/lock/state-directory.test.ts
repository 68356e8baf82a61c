import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { takeStateDirectory } from "./state-directory.ts";

async function freshDir(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-lock-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test("one at a time, and again once it is released", async () => {
  const dir = await freshDir();
  const first = await takeStateDirectory(dir, "agent");
  await expect(takeStateDirectory(dir, "agent")).rejects.toThrow(/another agent.* runs on the state directory/);
  await first.release();
  await (await takeStateDirectory(dir, "agent")).release();
});

test("by another name of the same directory it is the same lock", async () => {
  const dir = await freshDir();
  const lock = await takeStateDirectory(dir, "agent");
  onTestFinished(() => lock.release());
  await expect(takeStateDirectory(`${dir}/../${path.basename(dir)}`, "agent")).rejects.toThrow("another agent");
});

test("a killed holder leaves nothing that has to be cleaned up", async () => {
  const dir = await freshDir();
  const module = path.join(import.meta.dirname, "state-directory.ts");
  const script = `const { takeStateDirectory } = await import(${JSON.stringify(module)}); await takeStateDirectory(process.argv[1], "agent"); console.log("held"); setInterval(() => 0, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", script, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(holder, "exit");
  await once(holder.stdout, "data");
  await expect(takeStateDirectory(dir, "agent")).rejects.toThrow("another agent");
  holder.kill("SIGKILL");
  await gone;
  await (await takeStateDirectory(dir, "agent")).release();
});
