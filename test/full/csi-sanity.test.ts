import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import type { SimPluginOptions } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { buildCsiSanity, runCsiSanity, type SanityResult } from "../support/csi-sanity.ts";
import { full } from "../support/full.ts";

/** csi-sanity publishes without the context that CreateVolume answered, so the volumes it meets must have none. */
const settings: Pick<SimPluginOptions, "nodes" | "volumeContext" | "mutableKeys"> = {
  nodes: { "node-a": { maxVolumes: 8, topology: { "sim.holdfast.dev/zone": "a" } } },
  volumeContext: {},
  mutableKeys: ["tier"],
};
const mutableParameters = { tier: "fast" };

const root = process.getuid?.() === 0;

describe.runIf(full)("csi-sanity over the simulated plugin, every capability on", () => {
  let binary: string;
  let dir: string;
  let releases: (() => Promise<void>)[];

  beforeAll(async () => {
    binary = await buildCsiSanity();
  }, 600_000);

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-sanity-"));
    releases = [() => rm(dir, { recursive: true, force: true })];
  });

  afterEach(async () => {
    for (const release of releases.reverse()) await release();
    expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dir);
  });

  const startSplit = async (realMounts: boolean): Promise<{ socket: string; controllerSocket: string }> => {
    const backend = await startSimBackend({ dir, ...settings });
    releases.push(backend.stop);
    const start = async (role: "controller" | "node", node?: string): Promise<string> => {
      const home = path.join(dir, role);
      await mkdir(home);
      const plugin = await startSimPlugin({
        dir: home,
        role,
        backend: backend.socketPath,
        realMounts,
        ...(node === undefined ? {} : { node }),
      });
      releases.push(plugin.stop);
      return plugin.socketPath;
    };
    return { controllerSocket: await start("controller"), socket: await start("node", "node-a") };
  };

  const expectClean = (what: string, result: SanityResult): void => {
    console.log(`csi-sanity, ${what}: ${result.ran}; ${result.passed} passed, ${result.failed.length} failed`);
    for (const skipped of result.skipped) console.log(`  skipped: ${skipped}`);
    for (const pending of result.pending) console.log(`  pending upstream: ${pending}`);
    expect(result.failed).toEqual([]);
    expect(result.passed).toBeGreaterThan(80);
  };

  test("filesystem volumes, controller and node as processes of their own", async () => {
    const sockets = await startSplit(false);
    expectClean("nothing mounted", await runCsiSanity(binary, { dir, ...sockets, mutableParameters }));
  }, 300_000);

  test.runIf(root)(
    "filesystem volumes with real mounts",
    async () => {
      const sockets = await startSplit(true);
      expectClean("real mounts", await runCsiSanity(binary, { dir, ...sockets, mutableParameters }));
    },
    300_000,
  );

  test.runIf(root)(
    "block volumes with real loop devices",
    async () => {
      const sockets = await startSplit(true);
      expectClean(
        "block volumes",
        await runCsiSanity(binary, { dir, ...sockets, mutableParameters, accessType: "block" }),
      );
    },
    300_000,
  );
});
