/** What is shipped, as it is shipped: the package of the bundle, installed where nothing else is, and the tests of whole systems on it. */
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, fileWriter, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { full } from "../support/full.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { root, runToEnd } from "../support/run-go.ts";

const minute = 60_000;
const asRoot = process.getuid?.() === 0;
if (full && !asRoot) console.warn("SKIPPED: the package is tried with real mounts, which need root");

/** Whole lives, and the kill points of both services. */
const onTheBundle = [
  "happy-path",
  "local-driver",
  "controller-killed",
  "agent-killed",
  "workloads",
  "snapshots",
  "expand",
];

const run = async (command: string, args: readonly string[], deadlineMs: number, env = {}): Promise<string> => {
  const inherited = Object.entries(process.env).filter(([name]) => name !== "NODE_COMPILE_CACHE");
  const { code, output } = await runToEnd(command, args, deadlineMs, {
    env: { ...Object.fromEntries(inherited), ...env },
  });
  expect(code, output).toBe(0);
  return output;
};

describe.runIf(full && asRoot)("the bundle", () => {
  let dir: string;
  let installed: string;
  let version: string;
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-"));
    await chmod(dir, 0o755);
    installed = path.join(dir, "node_modules/holdfast");
    await run("npm", ["run", "--silent", "bundle"], 5 * minute);
    await run("npm", ["pack", "--silent", "--pack-destination", dir, "./dist"], minute);
    ({ version } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8")) as { readonly version: string });
    await writeFile(path.join(dir, "package.json"), "{}");
    await run(
      "npm",
      ["install", "--offline", "--silent", "--prefix", dir, path.join(dir, `holdfast-${version}.tgz`)],
      minute,
    );
  }, 8 * minute);
  afterAll(() => rm(dir ?? "/nonexistent", { recursive: true, force: true }));
  afterEach(() => vi.unstubAllEnvs());

  const holdfast = (args: readonly string[], env = {}): Promise<string> =>
    run(path.join(dir, "node_modules/.bin/holdfast"), args, minute, env);

  test("installs offline, with nothing beside it, and its command line answers", async () => {
    const lock = await readFile(path.join(dir, "package-lock.json"), "utf8");
    const { packages } = JSON.parse(lock) as { readonly packages: object };
    expect(Object.keys(packages)).toEqual(["", "node_modules/holdfast"]);
    expect(await holdfast(["--version"])).toBe(`${version}\n`);
    // Each command is a file of its own.
    expect(await holdfast(["volume", "create", "--help"])).toContain("--size");
    // The command line finds the services beside it.
    const settings = path.join(dir, "controller.env");
    await writeFile(settings, "HOLDFAST_LISTEN=nonsense\n");
    const { output } = await runToEnd(
      path.join(dir, "node_modules/.bin/holdfast"),
      ["doctor", "--controller-env", settings],
      minute,
    );
    expect(output).toContain("HOLDFAST_LISTEN");
  });

  test(
    "starts from its compile cache, every file of it",
    async () => {
      await run(process.execPath, [path.join(installed, "bin/holdfast-compile-cache.mjs")], 2 * minute);
      const output = await holdfast(["--version"], { NODE_DEBUG_NATIVE: "COMPILE_CACHE" });
      expect(output).toMatch(/ESM \S+holdfast\.js was accepted/);
      expect(output).not.toMatch(/ESM \S+ was (?!accepted)/);
    },
    3 * minute,
  );

  describe("on Redis", () => {
    let redis: RedisServer;
    let cluster: Cluster;
    beforeAll(async () => {
      vi.stubEnv("HOLDFAST_TEST_BUNDLE", installed);
      redis = await startRedisServer();
      cluster = await startCluster({ nodes: ["node-a"], store: redis.url, localDriver: {} });
    }, 3 * minute);
    afterAll(async () => {
      await cluster?.stop();
      await redis?.stop();
    });

    test(
      "controller, agent and local driver of the package serve a claim, and its command line shows it",
      async () => {
        for (const one of [cluster.controller(), cluster.node("node-a").agent(), cluster.driver()])
          expect(await readFile(`/proc/${one.pid}/cmdline`, "utf8")).toContain(installed);
        const plugin = "local.holdfast.dev";
        await makeVolume(cluster, "data", fileWriter, { plugin, parameters: { type: "directory" }, bytes: 1n << 20n });
        const claim = await claimVolume(cluster, "data");
        expect(stateName(claim)).toBe("ACTIVE");
        await writeFile(path.join(claim.hostPath, "written"), "by the host");
        const shown = await holdfast(["--address", cluster.address, "-n", "test", "volume", "list", "-o", "name"]);
        expect(shown).toContain("data");
        await releaseWorkload(cluster, "w-data");
        await removeVolume(cluster, "data");
      },
      3 * minute,
    );
  });

  test(
    "whole lives and kill points hold on it",
    async () => {
      const files = onTheBundle.map((name) => `test/e2e/${name}.e2e.test.ts`);
      const vitest = path.join(root, "node_modules/vitest/vitest.mjs");
      // What `npm test` takes of them: the kill points of all calls, on one side of each.
      const env = { HOLDFAST_TEST_BUNDLE: "dist", HOLDFAST_FULL: "0" };
      const output = await run(process.execPath, [vitest, "run", ...files], 30 * minute, env);
      console.log(output.split("\n").slice(-8).join("\n"));
      expect(output).toMatch(/Tests .*\d+ passed/);
    },
    31 * minute,
  );
});
