import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Cluster } from "../harness/cluster.ts";
import { othersGoOn } from "../harness/goes-on.ts";
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
import { until } from "../harness/until.ts";

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
    // From then on it is known how long calls take, and one that takes far longer holds its node no more.
    await othersGoOn(asked, ["node-a"]);
    await cluster.backend.client.clear();
    await cluster.backend.client.setFaults(methods.map((method) => ({ method, hangMs: longMs, when: "after" })));
    const open = async () =>
      (await cluster.backend.client.inFlight()).filter(({ method }) => methods.some((each) => each === method));
    const meanwhile = async () => {
      const long = await until("all of them to be open", async () => {
        const found = await open();
        return found.length === methods.length && found;
      });
      await othersGoOn(asked, ["node-a"]);
      expect((await open()).map(({ seq }) => seq)).toEqual(long.map(({ seq }) => seq));
      return new Set(long.map(({ seq }) => seq));
    };
    const [first] = await Promise.all([
      meanwhile(),
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
      const slow = calls.find((call) => call.method === method && first.has(call.seq));
      const made = calls.filter(
        (call) => call.method === method && call.volume === slow?.volume && call.name === slow?.name,
      );
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
