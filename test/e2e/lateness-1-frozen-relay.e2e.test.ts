import { relookMs } from "@holdfast/controller/reconcile/plugin/call-turn";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { othersGoOn } from "../harness/goes-on.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const volume = "relayed";
const workload = `w-${volume}`;

describe.skipIf(!root)("the agent that relays a detach is frozen with the call in its socket", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a", "node-b", "node-c"],
      controllerHalvesOn: ["node-a", "node-b"],
      realMounts: true,
      backend: { judgesArrivals: true },
    });
    for (const node of ["node-a", "node-b"]) await cluster.node(node).startControllerHalf();
  });
  afterAll(() => cluster?.stop());

  const detaches = async (): Promise<readonly string[]> =>
    (await cluster.backend.client.record())
      .filter(({ method }) => method === "ControllerUnpublishVolume")
      .map(({ instance }) => instance);
  const barsOf = async () => (await cluster.volumes.getVolume({ namespace, id: volume })).volume?.bars ?? [];

  it("lateness 1: [I2] another instance makes the call, and the pair alone waits for the end of the one before", async () => {
    await persistently("the volume", () => makeVolume(cluster, volume));
    expect(stateName(await claimVolume(cluster, volume, { node: "node-b" }))).toBe("ACTIVE");
    // The instance that was called first stays the one.
    const calls = await cluster.backend.client.record();
    const relay = calls.findLast(({ method }) => method === "ControllerPublishVolume")?.instance ?? "";
    // Its node's volume is let go on the other node, whose own agent has to answer for that.
    const holder = relay === "node-a" ? "node-b" : "node-a";
    if (holder === "node-a") {
      await releaseWorkload(cluster, workload);
      expect(stateName(await claimVolume(cluster, volume, { node: holder }))).toBe("ACTIVE");
    }
    const before = (await detaches()).length;
    const frozen = freeze(cluster.node(relay).agent());
    onTestFinished(frozen.thaw);
    expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    expect((await detaches()).slice(before)).toEqual([holder]);
    expect(await barsOf()).toMatchObject([
      {
        node: holder,
        operation: "detach",
        instance: expect.stringContaining(`node ${relay}`),
        clearWith: expect.stringContaining("repair clear-bar"),
      },
    ]);

    await expect(claimVolume(cluster, volume, { node: holder, workload: "early" })).rejects.toThrow(/clear-bar/);
    expect(stateName(await claimVolume(cluster, volume, { node: "node-c", workload: "elsewhere" }))).toBe("ACTIVE");
    await releaseWorkload(cluster, "elsewhere");
    await othersGoOn(cluster, [holder, "node-c"]);
    const queued = cluster.claims.createClaims({
      namespace,
      workload: "next",
      node: holder,
      claims: [{ volume }],
      queue: { enabled: true },
      waitFor: { seconds: 45n, nanos: 0 },
    });
    expect(await barsOf()).toHaveLength(1);
    const thawed = Date.now();
    frozen.thaw();
    expect((await queued).claims.map(stateName)).toEqual(["ACTIVE"]);
    expect(await barsOf()).toEqual([]);
    // The gate's own word wakes the volume; looking at it again at its time would take longer on average.
    const toldAt = async (wanted: string): Promise<number> => {
      const since = ({ message, time }: Record<string, unknown>): boolean =>
        message === wanted && Date.parse(String(time)) >= thawed;
      return Date.parse(String((await cluster.controller().line(since, wanted))["time"]));
    };
    const [back, lifted] = [await toldAt("a node registered"), await toldAt("a bar is lifted")];
    console.info(`the bar went ${lifted - back} ms after its gate was back`);
    expect(lifted - back).toBeLessThan(relookMs);

    // The late call came before the node had the volume again.
    const after = (await cluster.backend.client.record()).filter(
      ({ method }) => method.startsWith("ControllerP") || method.startsWith("ControllerU"),
    );
    const late = after.findLastIndex(
      ({ method, instance }) => method === "ControllerUnpublishVolume" && instance === relay,
    );
    const granted = after.findLastIndex(({ method }) => method === "ControllerPublishVolume");
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(granted);
    expect(await cluster.backend.client.violations()).toEqual([]);
    await releaseWorkload(cluster, "next");
    await removeVolume(cluster, volume);
    await expectClean(cluster);
  });
});
