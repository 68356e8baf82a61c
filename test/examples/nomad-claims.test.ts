/** The tasks of examples/nomad, as Nomad starts them: their commands with the variables of an allocation, twice, and after a failure. */
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { expectClean, makeVolume, namespace, removeVolume } from "../harness/scenario.ts";
import { childEnvironment } from "../support/child-environment.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const repo = path.resolve(import.meta.dirname, "../..");
const folder = path.join(repo, "examples/nomad");

describe.skipIf(!root)("the tasks of a Nomad job", { timeout: 60_000 }, () => {
  let dir: string;
  let cluster: Cluster;
  let job: string;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-nomad-tasks-"));
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    job = await readFile(path.join(folder, "claims.nomad.hcl"), "utf8");
    const cli = `#!/bin/sh\nexec '${process.execPath}' '${repo}/packages/cli/bin/holdfast.mjs' "$@"\n`;
    await mkdir(path.join(dir, "bin"));
    await writeFile(path.join(dir, "bin/holdfast"), cli);
    await chmod(path.join(dir, "bin/holdfast"), 0o755);
  });
  afterAll(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  /** The script that the task of this hook runs. */
  const taskOf = (hook: string): { readonly script: string; readonly env: Readonly<Record<string, string>> } => {
    const task = job.split(/^ {4}task /m).find((text) => new RegExp(`hook +?= "${hook}"`).test(text)) ?? "";
    const [, source = "", destination = ""] = /data +?= file\("(.*)"\)\s+destination = "(.*)"/.exec(task) ?? [];
    expect(task).toContain(`command = "${destination}"`);
    const env = Object.fromEntries(
      [...task.matchAll(/(HOLDFAST_\w+) += "(.*)"/g)].map(([, name = "", value = ""]) => [name, value]),
    );
    return { script: path.join(folder, source), env };
  };
  const run = async (hook: string, alloc: string, volume?: string): Promise<void> => {
    const { script, env } = taskOf(hook);
    const allocDir = path.join(dir, alloc);
    await mkdir(allocDir, { recursive: true });
    await promisify(execFile)(script, [], {
      env: {
        ...childEnvironment(),
        ...env,
        ...(volume === undefined ? {} : { HOLDFAST_VOLUME: volume }),
        PATH: `${path.join(dir, "bin")}:${process.env["PATH"]}`,
        HOLDFAST_AGENT: cluster.node("node-a").localAddress,
        ...{ NOMAD_NAMESPACE: namespace, NOMAD_ALLOC_ID: alloc, NOMAD_ALLOC_DIR: allocDir },
      },
    });
  };
  const holders = async () =>
    (await cluster.volumes.getVolume({ namespace, id: "data" })).volume?.holders.map(({ workload }) => workload);

  it("claim before, release after, each of them twice, and the next allocation finds the data", async () => {
    await makeVolume(cluster, "data");
    for (const hook of ["prestart", "prestart"]) await run(hook, "a1");
    expect(await holders()).toEqual(["nomad-a1"]);
    await writeFile(path.join(dir, "a1/data/file"), "kept");
    for (const hook of ["poststop", "poststop"]) await run(hook, "a1");
    expect(await readdir(path.join(dir, "a1"))).toEqual([]);

    await run("prestart", "a2");
    expect(await readFile(path.join(dir, "a2/data/file"), "utf8")).toBe("kept");
    await run("poststop", "a2");

    // A prestart that failed leaves nothing behind its poststop.
    await expect(run("prestart", "a3", "nothing")).rejects.toThrow(/VOLUME_NOT_FOUND/);
    await run("poststop", "a3", "nothing");
    expect(await readdir(path.join(dir, "a3"))).toEqual([]);
    await removeVolume(cluster, "data");
    await expectClean(cluster);
  });
});
