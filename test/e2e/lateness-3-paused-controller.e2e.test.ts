import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Cluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { seenFrom, settleDriver } from "../harness/plugin-driver.ts";
import { claimVolume, expectClean, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { startTwoControllers, type TwoControllers } from "../harness/two-controllers.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)(
  "the controller that was asked, and does not make the plugin's calls, is paused meanwhile",
  () => {
    let both: TwoControllers | undefined;
    let cluster: Cluster;

    beforeAll(async () => {
      both = await startTwoControllers(["node-a", "node-b"]);
      cluster = both.cluster;
    });
    afterAll(() => both?.stop());

    const underWay = (...methods: readonly string[]): Promise<unknown> =>
      until(`${methods.join(", ")} to be under way`, async () => {
        const open = (await cluster.backend.client.inFlight()).map(({ method }) => method);
        return methods.every((method) => open.some((each) => each === method));
      });

    it("lateness 3: [I1] [I2] what it knew before makes no detach, no attach and no volume afterwards", async () => {
      const { driver, other } = await settleDriver(cluster);
      const [asked, calling] = [seenFrom(cluster, other), seenFrom(cluster, driver)];
      const claim = async (id: string, node: string, workload: string): Promise<void> =>
        expect(stateName(await claimVolume(calling, id, { node, workload }))).toBe("ACTIVE");
      const release = async (workload: string): Promise<void> =>
        expect((await releaseWorkload(calling, workload)).map(stateName)).toEqual(["RELEASED"]);

      for (const id of ["detached", "attached"]) await makeVolume(calling, id);
      await claim("detached", "node-a", "w1");
      // It sees the beginning of each of the three calls, and nothing that follows.
      await cluster.backend.client.setFaults([
        { method: "ControllerUnpublishVolume", hangMs: 1_500, when: "after" },
        { method: "ControllerPublishVolume", hangMs: 1_500, when: "after" },
        { method: "CreateVolume", hangMs: 1_500, when: "after" },
      ]);
      // When their callers are told is another matter.
      void Promise.allSettled([
        releaseWorkload(asked, "w1"),
        claimVolume(asked, "attached", { node: "node-a", workload: "w2" }),
        makeVolume(asked, "created"),
      ]);
      await underWay("ControllerUnpublishVolume", "ControllerPublishVolume", "CreateVolume");
      const frozen = freeze(other === "first" ? cluster.controller() : cluster.second.process());
      onTestFinished(frozen.thaw);
      const pausedAt = performance.now();
      await until("the calls to end", async () => (await cluster.backend.client.inFlight()).length === 0);
      await claim("detached", "node-a", "w3");
      await release("w2");
      await claim("attached", "node-b", "w4");
      await removeVolume(calling, "created");
      // So long a call was left to the other controller.
      await pause(Math.max(0, pausedAt + 5_500 - performance.now()));
      const { seq: last = 0 } = (await cluster.backend.client.record()).at(-1) ?? {};
      frozen.thaw();
      // It has caught up when it does what it is asked for next.
      await makeVolume(asked, "next");
      expect(await cluster.backend.client.violations()).toEqual([]);
      const late = (await cluster.backend.client.record()).filter(
        ({ seq, method }) => seq > last && /^(Controller(P|Unp)ublish|Create)Volume$/.test(method),
      );
      expect(late.map(({ method }) => method)).toEqual(["CreateVolume"]);
      for (const workload of ["w3", "w4"]) await release(workload);
      for (const id of ["detached", "attached", "next"]) await removeVolume(calling, id);
      await expectClean(cluster);
    });
  },
);
