/** What a core holds: all of a process's memory, so also secrets. Units and containers set the limit to 0 (test/deploy); here is what that does. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const canary = "cAnArY-of-a-core-7f3";
const pattern = (await readFile("/proc/sys/kernel/core_pattern", "utf8").catch(() => "")).trim();
/** Only then is it known where a core would be. */
const besideIt = pattern === "core" || pattern.startsWith("core.");
if (!besideIt) console.warn(`SKIPPED: cores go to ${JSON.stringify(pattern)}`);

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-core-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const cores = async (): Promise<readonly string[]> => (await readdir(dir)).filter((name) => name.startsWith("core"));

const inDir = (limit: string, command: string, env: Readonly<Record<string, string>>): ManagedProcess =>
  startProcess({
    name: "aborted",
    command: ["/bin/sh", "-c", `cd '${dir}' && ulimit -c ${limit} && exec ${command}`],
    env: { ...env, CANARY: canary },
  });

test.skipIf(!besideIt)("a service with the limit of its unit leaves no core, however it dies", async () => {
  for (const signal of ["SIGABRT", "SIGSEGV"] as const) {
    const main = path.join(repo, "services/controller/src/main.ts");
    const service = inDir("0", `'${process.execPath}' --disable-sigusr1 '${main}'`, {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(dir, "state"),
      HOLDFAST_PLUGIN_DIR: path.join(dir, "plugins"),
    });
    await service.line((line) => line["message"] === "admin listening", "its admin address");
    await service.kill(signal);
    expect(await cores(), signal).toEqual([]);
  }
});

test.skipIf(!besideIt)("a process without the limit leaves one, and a secret is found in it", async () => {
  const process = inDir("unlimited", "sleep 60", {});
  await expect.poll(() => readFile(`/proc/${process.pid}/comm`, "utf8")).toBe("sleep\n");
  await process.kill("SIGABRT");
  const [core = ""] = await cores();
  expect((await readFile(path.join(dir, core))).includes(canary)).toBe(true);
});
