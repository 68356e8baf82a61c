import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Cluster } from "../harness/cluster.ts";
import { seenFrom, settleDriver } from "../harness/plugin-driver.ts";
import {
  claimVolume,
  expectClean,
  growVolume,
  makeVolume,
  namespace,
  releaseWorkload,
  removeVolume,
} from "../harness/scenario.ts";

import { startTwoControllers, type TwoControllers } from "../harness/two-controllers.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const waitFor = { seconds: 45n, nanos: 0 };
/** Longer than a call was ever left to the controller that makes it. */
const longMs = 6_500;
const methods = [
  "CreateVolume",
  "ControllerPublishVolume",
  "ControllerUnpublishVolume",
  "ControllerExpandVolume",
  "CreateSnapshot",
  "DeleteVolume",
] as const;

describe.skipIf(!root)("long calls are asked of the controller that does not make the plugin's calls", () => {
  let both: TwoControllers | undefined;
  let cluster: Cluster;

  beforeAll(async () => {
    both = await startTwoControllers(["node-a"]);
    cluster = both.cluster;
  });
  afterAll(() => both?.stop());

  it("lateness 4: [I4] each of them is made once, and none is made beside it", async () => {
    const { driver, other } = await settleDriver(cluster);
    const [asked, calling] = [seenFrom(cluster, other), seenFrom(cluster, driver)];
    for (const id of ["attached", "detached", "grown", "cut", "deleted"]) await makeVolume(calling, id);
    await claimVolume(calling, "detached");
    await cluster.backend.client.clear();
    await cluster.backend.client.setFaults(methods.map((method) => ({ method, hangMs: longMs, when: "after" })));
    await Promise.all([
      makeVolume(asked, "made"),
      claimVolume(asked, "attached"),
      releaseWorkload(asked, "w-detached"),
      growVolume(asked, "grown"),
      asked.snapshots.createSnapshot({ namespace, id: "snapshot", volume: "cut", waitFor }),
      removeVolume(asked, "deleted"),
    ]);
    expect(await cluster.backend.client.violations()).toEqual([]);
    const calls = await cluster.backend.client.record();
    for (const method of methods) {
      const made = calls.filter((call) => call.method === method);
      expect(
        made.map(({ instance }) => instance),
        method,
      ).toEqual([driver]);
    }
    await releaseWorkload(calling, "w-attached");
    for (const id of ["made", "attached", "detached", "grown"]) await removeVolume(calling, id);
    await expectClean(cluster, { volumesLeft: 1 });
  });
});
