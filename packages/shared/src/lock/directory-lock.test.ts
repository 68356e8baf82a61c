import childProcess, { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { bareEnvironment } from "../bare-environment.ts";
import { type DirectoryLock, takeDirectoryLock } from "./directory-lock.ts";

async function freshDir(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-lock-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

async function take(dir: string): Promise<DirectoryLock> {
  const lock = await takeDirectoryLock(dir);
  onTestFinished(() => lock.release());
  return lock;
}

async function heldByAnother(dir: string) {
  const module = path.join(import.meta.dirname, "directory-lock.ts");
  const script = `const { takeDirectoryLock } = await import(${JSON.stringify(module)}); await takeDirectoryLock(process.argv[1]); console.log("held"); setInterval(() => 0, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", script, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(holder, "exit");
  const kill = async () => {
    holder.kill("SIGKILL");
    await gone;
  };
  onTestFinished(kill);
  await once(holder.stdout, "data");
  return { pid: holder.pid, kill };
}

test("one at a time, and again once it is released", async () => {
  const dir = await freshDir();
  const first = await take(dir);
  await expect(take(dir)).rejects.toThrow(`another process (pid ${process.pid}) holds the lock of ${dir}`);
  first.release();
  const second = await take(dir);
  // Released twice, it does not let go of what another has opened meanwhile.
  first.release();
  await expect(take(dir)).rejects.toThrow("holds the lock of");
  second.release();
});

test("of many at once exactly one gets it", async () => {
  const dir = await freshDir();
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => take(dir)));
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("by another name of the same directory, and with its files deleted, it is the same lock", async () => {
  const dir = await freshDir();
  await take(dir);
  await rm(path.join(dir, "lock"));
  await expect(take(`${dir}/../${path.basename(dir)}`)).rejects.toThrow("holds the lock of");
});

test("a killed holder leaves nothing that has to be cleaned up, and is named while it lives", async () => {
  const dir = await freshDir();
  const holder = await heldByAnother(dir);
  await expect(take(dir)).rejects.toMatchObject({ name: "DirectoryTaken", directory: dir, pid: `${holder.pid}` });
  await holder.kill();
  await take(dir);
  expect(JSON.parse(await readFile(path.join(dir, "lock"), "utf8"))).toMatchObject({ pid: `${process.pid}` });
  expect((await stat(path.join(dir, "lock"))).mode & 0o777).toBe(0o600);
});

test.each([
  ["nothing", ""],
  ["half a line", '{"pid":"1","sta'],
  ["no object", "null"],
  ["a process that is long gone", '{"pid":"4194304","startTime":"1","bootId":"x"}'],
  ["a pid that is used again", `{"pid":"${process.pid}","startTime":"1","bootId":"x"}`],
])("who holds it is not guessed from %s in the file", async (_what, told) => {
  const dir = await freshDir();
  await take(dir);
  await writeFile(path.join(dir, "lock"), told);
  await expect(take(dir)).rejects.toMatchObject({ name: "DirectoryTaken", pid: undefined });
});

test("where the file cannot be written, as on a full disk, the lock is held all the same", async () => {
  const dir = await freshDir();
  await mkdir(path.join(dir, "lock"));
  await take(dir);
  await expect(take(dir)).rejects.toThrow("another process holds the lock of");
});

test("flock(1) is told nothing of this process: no setting, no secret", async () => {
  const environments: SpawnOptions["env"][] = [];
  const noting = (program: string, args: readonly string[], options: SpawnOptions) => {
    environments.push(options.env);
    return spawnAsItWas(program, args, options);
  };
  const spawnAsItWas = childProcess.spawn;
  const spawnBy = (made: unknown): void => {
    Object.assign(childProcess, { spawn: made });
    syncBuiltinESMExports();
  };
  spawnBy(noting);
  onTestFinished(() => spawnBy(spawnAsItWas));
  await take(await freshDir());
  expect(environments).toEqual([bareEnvironment]);
});

test("no directory, no lock", async () => {
  const dir = await freshDir();
  await expect(take(path.join(dir, "gone"))).rejects.toThrow(/ENOENT/);
});
