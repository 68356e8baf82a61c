import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { expectClean, makeVolume, namespace, persistently, removeVolume } from "../harness/scenario.ts";

const volume = "relayed";
const id = "monday";
const waitFor = { seconds: 45n, nanos: 0 };

describe("the agent that relays the delete of a snapshot is frozen with the call in its socket", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a", "node-b"], controllerHalvesOn: ["node-a", "node-b"] });
    for (const node of ["node-a", "node-b"]) await cluster.node(node).startControllerHalf();
  });
  afterAll(() => cluster?.stop());

  const callsOf = async (name: string): Promise<readonly string[]> =>
    (await cluster.backend.client.record()).filter(({ method }) => method === name).map(({ instance }) => instance);
  const cut = () => cluster.snapshots.createSnapshot({ namespace, id, volume, waitUntilReady: true, waitFor });
  const stored = async () => (await cluster.backend.client.snapshot()).state.snapshots.size;

  it("[I5] another instance deletes it, and nothing else gets its name before the end of the first call", async () => {
    await persistently("the volume", () => makeVolume(cluster, volume));
    const first = await cut();
    expect(first.snapshot?.state).toBe(SnapshotState.SNAPSHOT_STATE_READY);
    const relay = (await callsOf("CreateSnapshot")).at(-1) ?? "";
    const other = relay === "node-a" ? "node-b" : "node-a";
    const frozen = freeze(cluster.node(relay).agent());
    onTestFinished(frozen.thaw);
    const gone = cluster.snapshots.deleteSnapshot({ namespace, id, waitFor: { seconds: 90n, nanos: 0 } });
    await expect.poll(() => callsOf("DeleteSnapshot"), { timeout: 40_000, interval: 200 }).toEqual([other]);
    const { snapshot } = await cluster.snapshots.getSnapshot({ namespace, id });
    expect(snapshot).toMatchObject({
      state: SnapshotState.SNAPSHOT_STATE_DELETING,
      blocked: {
        reason: "CALL_BARRED",
        clearWith: expect.stringMatching(/repair clear-bar monday .* --kind snapshot/),
      },
    });
    await expect(cut()).rejects.toMatchObject({ reason: "SNAPSHOT_EXISTS" });
    expect(await callsOf("CreateSnapshot")).toHaveLength(1);
    frozen.thaw();
    expect((await gone).snapshot).toBeUndefined();
    expect([...(await callsOf("DeleteSnapshot"))].sort()).toEqual(["node-a", "node-b"]);

    const again = await cut();
    expect(again.snapshot?.state).toBe(SnapshotState.SNAPSHOT_STATE_READY);
    expect(again.snapshot?.uid).not.toBe(first.snapshot?.uid);
    expect(await stored()).toBe(1);
    await cluster.snapshots.deleteSnapshot({ namespace, id, waitFor });
    expect(await stored()).toBe(0);
    await removeVolume(cluster, volume);
    await expectClean(cluster);
  });
});
