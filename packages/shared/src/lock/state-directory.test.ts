import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { takeStateLock } from "./state-lock.ts";

async function freshDir(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-lock-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test("one at a time, and again once it is released", async () => {
  const dir = await freshDir();
  const first = await takeStateLock(dir);
  await expect(takeStateLock(dir)).rejects.toThrow(/another agent runs on the state directory/);
  await first.release();
  await (await takeStateLock(dir)).release();
});

test("by another name of the same directory it is the same lock", async () => {
  const dir = await freshDir();
  const lock = await takeStateLock(dir);
  onTestFinished(() => lock.release());
  await expect(takeStateLock(`${dir}/../${path.basename(dir)}`)).rejects.toThrow("another agent");
});

test("a killed holder leaves nothing that has to be cleaned up", async () => {
  const dir = await freshDir();
  const module = path.join(import.meta.dirname, "state-lock.ts");
  const script = `const { takeStateLock } = await import(${JSON.stringify(module)}); await takeStateLock(process.argv[1]); console.log("held"); setInterval(() => 0, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", script, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(holder, "exit");
  await once(holder.stdout, "data");
  await expect(takeStateLock(dir)).rejects.toThrow("another agent");
  holder.kill("SIGKILL");
  await gone;
  await (await takeStateLock(dir)).release();
});
