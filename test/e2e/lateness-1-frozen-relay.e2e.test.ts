import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
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
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const volume = "relayed";
const workload = `w-${volume}`;

describe.skipIf(!root)("the agent that relays a detach is frozen with the call in its socket", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
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

  it("lateness 1: [I2] no other instance is asked; the node is not granted again before that call has ended", async () => {
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
    const releasing = releaseWorkload(cluster, workload).catch((error: unknown) => String(error));
    const claims = async () => (await cluster.claims.listClaims({ filter: { namespace, workload } })).claims;
    const waits = await until("the release to end, or to say what it waits for", async () => {
      const left = (await claims()).filter(({ state }) => state !== ClaimState.CLAIM_STATE_RELEASED);
      if (left.length === 0) return { blocked: undefined };
      return left.some(({ blocked }) => blocked !== undefined) ? { blocked: left[0]?.blocked } : undefined;
    });
    const asked = claimVolume(cluster, volume, { node: holder, workload: "next" }).catch((error: unknown) => error);
    // Through the other instance it would be there by now.
    if (waits.blocked === undefined) await asked;
    frozen.thaw();
    await until("the frozen agent to pass its call on", async () => (await detaches()).slice(before).includes(relay));
    await releasing;
    await persistently("the next claim", async () =>
      expect(stateName(await claimVolume(cluster, volume, { node: holder, workload: "next" }))).toBe("ACTIVE"),
    );
    expect(await cluster.backend.client.violations()).toEqual([]);
    expect(new Set((await detaches()).slice(before))).toEqual(new Set([relay]));
    expect(waits.blocked).toMatchObject({
      reason: "CALL_MAY_BE_OPEN",
      clearWith: expect.stringContaining("repair take-over"),
    });
    await releaseWorkload(cluster, "next");
    await removeVolume(cluster, volume);
    await expectClean(cluster);
  });
});
