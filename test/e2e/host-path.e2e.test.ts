/** A sample by seed of test/full/host-path-kills.test.ts. */
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { recordedMethods } from "../harness/host-path-log.ts";
import { killTable, runHostPathKills } from "../harness/host-path-run.ts";
import { servedIn } from "../harness/host-path-served.ts";
import { startHostPathWorld } from "../harness/host-path-world.ts";
import { nodes } from "../harness/node-local.ts";
import { createSeededRandom, seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";
import { buildHostPath, hasHostPath } from "../support/host-path-driver.ts";

const can = !full && (await hasHostPath("a sample of csi-driver-host-path under kills"));

/** After a kill in a call that makes something, some waits last minutes: for what may still come late, or for a person. */
const quickMethods = recordedMethods.filter((method) => !method.startsWith("Create"));

describe.runIf(can)("csi-driver-host-path, a file system on one node and a block device on the other", () => {
  beforeAll(buildHostPath, 600_000);

  it("it, its agents and the controller are killed in calls, each RPC is served, and nothing is left", {
    timeout: 240_000,
  }, async () => {
    const seed = seedOfRun();
    const random = createSeededRandom(seed);
    const hosted = random.chance(0.5);
    const chosen = random.some(quickMethods, 3);
    const methods = quickMethods.filter((method) => chosen.includes(method));
    console.log(`HOLDFAST_SEED=${seed}: ${hosted ? "hosted" : "found by its socket"}, killed in ${methods.join(", ")}`);
    const world = await startHostPathWorld({ hosted, controllers: 1 });
    onTestFinished(() => world.stop());
    const figures = await runHostPathKills(world, { seed, lives: 1, methods });
    const served = await servedIn(world.driver(nodes[0]).socket, figures);
    console.log(`${killTable(figures)}\n${JSON.stringify(served, null, 2)}`);
    expect(figures.kills.length + figures.skipped.length).toBe(nodes.length * methods.length);
    for (const { method, underWay } of figures.kills) expect(underWay).toContain(method);
    expect(figures.lifecycleErrors).toEqual([]);
    expect(figures.leaks).toEqual([]);
    expect(figures.stuck).toEqual([]);
    expect(served.missing).toEqual([]);
    for (const node of nodes) expect(await world.stopHosting(node), `the plugin of ${node} to stop`).toBe(true);
  });
});
