import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Cluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { othersGoOn } from "../harness/goes-on.ts";
import { seenFrom, settleDriver } from "../harness/plugin-driver.ts";
import { claimVolume, expectClean, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { startTwoControllers, type TwoControllers } from "../harness/two-controllers.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const volume = "slow";
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("two healthy controllers, and one replica of the plugin that hangs", () => {
  let both: TwoControllers | undefined;
  let cluster: Cluster;

  beforeAll(async () => {
    both = await startTwoControllers(["node-a"]);
    cluster = both.cluster;
  });
  afterAll(() => both?.stop());

  it("lateness 2: [I2] a detach of 7 s is the call of one controller; the other one's replica is not asked", async () => {
    const { driver, other } = await settleDriver(cluster);
    // From then on it is known how long a detach takes, and one that takes far longer holds its node no more.
    await othersGoOn(cluster, ["node-a"]);
    await cluster.backend.client.clear();
    await makeVolume(cluster, volume);
    expect(stateName(await claimVolume(cluster, volume))).toBe("ACTIVE");
    await cluster.backend.client.addFault({ method: "ControllerUnpublishVolume", hangMs: 7_000, when: "after" });
    // Who was asked would have made it itself after five seconds.
    const releasing = releaseWorkload(seenFrom(cluster, other), `w-${volume}`);
    const open = async () =>
      (await cluster.backend.client.inFlight()).some(({ method }) => method === "ControllerUnpublishVolume");
    await until("the detach to be under way", open);
    // The replica hangs when help would come, and not before: one that hangs for long is known not to be well.
    await Promise.all([pause(3_500), othersGoOn(seenFrom(cluster, other), ["node-a"])]);
    expect(await open()).toBe(true);
    const frozen = freeze(other === "first" ? cluster.controllerPlugin() : cluster.second.plugin());
    onTestFinished(frozen.thaw);
    expect((await releasing).map(stateName)).toEqual(["RELEASED"]);
    expect(stateName(await claimVolume(cluster, volume, { workload: "next" }))).toBe("ACTIVE");
    frozen.thaw();
    // What lies in its socket arrives now.
    await until("the replica to answer again", async () => {
      const calls = await cluster.backend.client.record();
      const after = calls.findLast(({ method }) => method === "NodePublishVolume")?.seq ?? 0;
      return calls.some(({ instance, seq }) => instance === other && seq > after);
    });
    expect(await cluster.backend.client.violations()).toEqual([]);
    // That of the other volume, which ended first, is one of them.
    const detaches = (await cluster.backend.client.record()).filter((c) => c.method === "ControllerUnpublishVolume");
    expect(detaches.map(({ instance }) => instance)).toEqual([driver, driver]);
    await releaseWorkload(cluster, "next");
    await removeVolume(cluster, volume);
    await expectClean(cluster);
  });
});
