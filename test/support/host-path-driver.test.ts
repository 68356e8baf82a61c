/** The script that builds csi-driver-host-path, with a Go that only writes down what it was asked for. */
import { execFile, spawnSync } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";

const run = promisify(execFile);
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-hpd-"));
  for (const each of ["tree/test/support", "peers", "source/driver"])
    await mkdir(path.join(dir, each), { recursive: true });
  await copyFile(path.join(import.meta.dirname, "host-path-driver.sh"), path.join(dir, "tree/test/support/it.sh"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const task = async (name: string): Promise<string> => {
  const env = { PATH: `${dir}:/usr/bin:/bin`, HOLDFAST_PEERS: path.join(dir, "peers") };
  return (await run("bash", [path.join(dir, "tree/test/support/it.sh"), name], { env })).stdout.trim();
};
const archive = (): void => {
  const file = path.join(dir, "peers/csi-driver-host-path-1.18.0.tar.xz");
  expect(spawnSync("tar", ["-cJf", file, "-C", path.join(dir, "source"), "driver"]).status).toBe(0);
};
const go = async (version: string, build = "true"): Promise<void> => {
  const file = path.join(dir, "go");
  await writeFile(file, `#!/bin/bash\nif [ "$1" = env ]; then echo ${version}; exit; fi\n${build}\n`);
  await chmod(file, 0o755);
};

it("says why the driver cannot be built: no archive, no Go, one that is too old", async () => {
  expect(await task("missing")).toBe(
    `${dir}/peers/csi-driver-host-path-1.18.0.tar.xz is not there; HOLDFAST_PEERS names its folder`,
  );
  archive();
  expect(await task("missing")).toBe("go is not there to build it");
  await go("go1.9.7");
  expect(await task("missing")).toBe("go1.9.7 is too old to build it: it needs go1.26.0");
  await expect(task("build")).rejects.toThrow("go1.9.7 is too old to build it");
  await go("go1.27.1");
  expect(await task("missing")).toBe("");
});

it("builds it once, however many ask; a build that fails leaves nothing that is taken for it", async () => {
  archive();
  const cache = path.join(dir, "tree/.cache");
  const half = `while [ "$1" != -o ]; do shift; done; echo half > "$2"; echo one >> ${dir}/builds`;
  await go("go1.26.8", `${half}; exit 1`);
  await expect(task("build")).rejects.toThrow();
  expect(await readdir(cache)).not.toContain("host-path-1.18.0");
  await go("go1.26.8", `${half}; sleep 0.3`);
  const binary = path.join(cache, "host-path-1.18.0");
  expect(await Promise.all(["build", "build", "build"].map(task))).toEqual([binary, binary, binary]);
  expect((await readdir(cache)).sort()).toEqual(["host-path-1.18.0", "host-path-1.18.0.lock"]);
  expect(await readFile(path.join(dir, "builds"), "utf8")).toBe("one\none\n");
  await rm(path.join(dir, "peers"), { recursive: true });
  expect(await task("missing")).toBe("");
});
