/** A sample of test/full/host-path-kills.test.ts, for a driver that was built before: to build it takes a minute of CPU. */
import { expect, onTestFinished, test } from "vitest";
import { killTable, runHostPathKills } from "../harness/host-path-run.ts";
import { startHostPathWorld } from "../harness/host-path-world.ts";
import { nodes } from "../harness/node-local.ts";
import { seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";
import { hostPathBuilt } from "../support/host-path-driver.ts";

const missing =
  process.getuid?.() !== 0
    ? "real mounts need root"
    : hostPathBuilt()
      ? ""
      : "it is not built; HOLDFAST_FULL=1 builds it and runs all of test/full/host-path-kills.test.ts";
if (!full && missing !== "") console.warn(`SKIPPED: a sample of csi-driver-host-path under kills: ${missing}`);

test.skipIf(full || missing !== "")(
  "csi-driver-host-path, hosted: it, its agents and the controller are killed in calls, and nothing is left",
  { timeout: 120_000 },
  async () => {
    const seed = seedOfRun();
    console.log(`HOLDFAST_SEED=${seed}`);
    const world = await startHostPathWorld({ hosted: true, controllers: 1 });
    onTestFinished(() => world.stop());
    // Not those that cut something: what may still cut it late is waited for for minutes.
    const methods = ["NodePublishVolume", "ControllerUnpublishVolume", "DeleteVolume"] as const;
    const figures = await runHostPathKills(world, { seed, lives: 1, methods });
    console.log(killTable(figures));
    expect(figures.kills.length + figures.skipped.length).toBe(2 * methods.length);
    expect(figures.lifecycleErrors).toEqual([]);
    expect(figures.leaks).toEqual([]);
    expect(figures.stuck).toEqual([]);
    for (const node of nodes) expect(await world.stopHosting(node), `the plugin of ${node} to stop`).toBe(true);
  },
);
