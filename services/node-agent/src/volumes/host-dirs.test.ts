import { execFileSync, spawnSync } from "node:child_process";
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { openHostDirs } from "./host-dirs.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: directories of root need root");

async function freshRoot() {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-dirs-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const log = createMemoryLogger();
  const clock = createManualClock();
  const at = path.join(dir, "m");
  return { dir, at, log, clock, open: () => openHostDirs({ root: at, log, alsoTrusted: [], clock }) };
}

describe.skipIf(!root)("directories below the agent's root", () => {
  test("are made one at a time, for root alone to change, and removed when empty", async () => {
    const { at, open } = await freshRoot();
    const dirs = await open();
    await dirs.makeStaging(`${at}/staging/abc`);
    await dirs.makeStaging(`${at}/staging/abc`);
    expect((await stat(`${at}/staging/abc`)).mode & 0o7777).toBe(0o711);
    await dirs.makeParent(`${at}/publish/abc/def`);
    expect(await readdir(`${at}/publish/abc`)).toEqual([]);
    await dirs.removeDirectory(`${at}/publish/abc`);
    await dirs.removeDirectory(`${at}/publish/abc`);
    expect(await readdir(`${at}/publish`)).toEqual([]);
  });

  test("a target goes when it is an empty directory or an empty file; what holds something stays and is logged", async () => {
    const { at, log, open } = await freshRoot();
    const dirs = await open();
    await dirs.makeParent(`${at}/publish/abc/def`);
    await mkdir(`${at}/publish/abc/dir`);
    await writeFile(`${at}/publish/abc/file`, "");
    for (const name of ["dir", "file", "none"]) await dirs.removeTarget(`${at}/publish/abc/${name}`);
    expect(await readdir(`${at}/publish/abc`)).toEqual([]);
    await mkdir(`${at}/publish/abc/full/data`, { recursive: true });
    await writeFile(`${at}/publish/abc/written`, "precious");
    for (const name of ["full", "written"]) await dirs.removeTarget(`${at}/publish/abc/${name}`);
    expect((await readdir(`${at}/publish/abc`)).sort()).toEqual(["full", "written"]);
    expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(2);
  });

  test("[I2] what is mounted is not vacated, nor is what holds it; what is gone is vacant", async () => {
    const { at, open } = await freshRoot();
    const dirs = await open();
    const [publish, target] = [`${at}/publish/abc`, `${at}/publish/abc/def`];
    await dirs.makeParent(target);
    await dirs.makeTarget(target);
    execFileSync("mount", ["-t", "tmpfs", "none", target]);
    onTestFinished(() => void spawnSync("umount", [target], { stdio: "ignore" }));
    expect([await dirs.vacate(target), await dirs.vacate(publish)]).toEqual([false, false]);
    execFileSync("umount", [target]);
    expect([await dirs.vacate(target), await dirs.vacate(target), await dirs.vacate(publish)]).toEqual([
      true,
      true,
      true,
    ]);
    await dirs.makeParent(target);
    await writeFile(target, "");
    expect(await dirs.vacate(target)).toBe(false);
    expect(await readdir(publish)).toEqual(["def"]);
  });

  test.each(["staging", "publish"])("a link in place of %s is not followed", async (name) => {
    const { dir, at, open } = await freshRoot();
    const dirs = await open();
    await mkdir(path.join(dir, "outside"));
    await rm(`${at}/${name}`, { recursive: true });
    await symlink(path.join(dir, "outside"), `${at}/${name}`);
    const making =
      name === "staging" ? dirs.makeStaging(`${at}/staging/abc`) : dirs.makeParent(`${at}/publish/abc/def`);
    await expect(making).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE" });
    expect(await readdir(path.join(dir, "outside"))).toEqual([]);
  });

  test("a link that stands where a directory is to be made is not taken for one", async () => {
    const { dir, at, open } = await freshRoot();
    const dirs = await open();
    await mkdir(path.join(dir, "outside"));
    await symlink(path.join(dir, "outside"), `${at}/staging/abc`);
    await expect(dirs.makeStaging(`${at}/staging/abc`)).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE" });
    await dirs.removeTarget(`${at}/staging/abc`);
    expect((await lstat(`${at}/staging/abc`)).isSymbolicLink()).toBe(true);
  });

  test("a directory that was made anew in the meantime is the one that is used", async () => {
    const { at, open } = await freshRoot();
    const dirs = await open();
    await rename(`${at}/staging`, `${at}/old`);
    await mkdir(`${at}/staging`, { mode: 0o711 });
    await dirs.makeStaging(`${at}/staging/abc`);
    expect(await readdir(`${at}/staging`)).toEqual(["abc"]);
    expect(await readdir(`${at}/old`)).toEqual([]);
  });

  test("however often they are used, no descriptor is left open", async () => {
    const { at, open } = await freshRoot();
    const dirs = await open();
    const opened = async () => (await readdir("/proc/self/fd")).length;
    const before = await opened();
    for (let count = 0; count < 20; count += 1) {
      await dirs.makeStaging(`${at}/staging/abc`);
      await dirs.makeParent(`${at}/publish/abc/def`);
      await writeFile(`${at}/publish/abc/def`, "");
      await dirs.removeTarget(`${at}/publish/abc/def`);
      await dirs.removeDirectory(`${at}/publish/abc`);
      await expect(dirs.makeStaging(`${at}/publish/none/abc`)).rejects.toMatchObject({ code: "ENOENT" });
    }
    expect(await opened()).toBeLessThan(before + 5);
  });

  test("a parent that others may change is refused, and what stands above it a second later", async () => {
    const { at, clock, open } = await freshRoot();
    const dirs = await open();
    await dirs.makeParent(`${at}/publish/abc/def`);
    await chmod(`${at}/publish/abc`, 0o777);
    await expect(dirs.makeParent(`${at}/publish/abc/def`)).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE" });
    await chmod(`${at}/publish/abc`, 0o711);
    await chmod(at, 0o777);
    await clock.advance(1_000);
    await expect(dirs.makeParent(`${at}/publish/abc/def`)).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE" });
  });

  test.each([
    ["others may write to it", async (at: string) => chmod(at, 0o777)],
    ["its group may write to it", async (at: string) => chmod(at, 0o770)],
    ["it belongs to somebody else", async (at: string) => chown(at, 1234, 1234)],
  ])("refused when %s", async (_name, spoil) => {
    const { at, open } = await freshRoot();
    const dirs = await open();
    await spoil(`${at}/staging`);
    await expect(dirs.makeStaging(`${at}/staging/abc`)).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE" });
    await spoil(at);
    await expect(open()).rejects.toMatchObject({ reason: "HOST_PATH_UNSAFE", message: expect.stringContaining(at) });
  });
});
