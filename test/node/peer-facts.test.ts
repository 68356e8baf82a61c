/** Facts that the tests of another orchestrator pin down (docs/nomad-differences.md), where no test of a part shows ours. */

import { isRoot, startRig } from "@holdfast/node-agent/testing/agent-rig";
import { createModelAgent, permitOrder, releaseOrder } from "@holdfast/node-agent/testing/model-agent";
import { foldRecords } from "@holdfast/node-agent/volumes/ledger";
import { describe, expect, test } from "vitest";

const caller = new AbortController().signal;

test("X13 what an earlier version had rewritten is read: what it did not know is empty, what it held is held", async () => {
  const agent = createModelAgent();
  await agent.start();
  await agent.volumes().publish(permitOrder("a", 1), caller);
  const [volume] = agent.ledger().volumes();
  const { nodeEpoch, clusterUid, promisedGen, bootId } = agent.ledger().agent();
  const earlier = JSON.parse(JSON.stringify([{ f: { nodeEpoch, clusterUid, promisedGen, bootId } }, { s: volume }]));
  const folded = foldRecords(earlier);
  expect(folded.fault).toBeUndefined();
  expect(folded.agent).toEqual(agent.ledger().agent());
  expect([...folded.volumes.values()]).toEqual([volume]);
  agent.crash();
});

test("X15 one is staged and not yet published, the other is released: one unpublish, no unstage, the one stays", async () => {
  const agent = createModelAgent();
  await agent.start();
  const reader = { accessMode: "MULTI_NODE_READER_ONLY", readOnly: true, oldestLiveEpoch: { gen: 1, ctr: 1 } } as const;
  const [a, b] = [permitOrder("a", 1, reader), permitOrder("b", 2, reader)];
  expect(await agent.volumes().publish(a, caller)).toMatchObject({ kind: "published" });
  agent.host.fates.push("lost-before");
  expect(await agent.volumes().publish(b, caller)).toMatchObject({ kind: "uncertain" });
  const before = agent.host.calls.length;
  expect(await agent.volumes().release(releaseOrder("a", 1), caller)).toMatchObject({ kind: "released" });
  expect(agent.host.calls.slice(before)).toEqual(["NodeUnpublishVolume done"]);
  expect(Object.keys([...agent.ledger().volumes()][0]?.claims ?? {})).toEqual(["b"]);
  expect(agent.host.staged()).toHaveLength(1);
  agent.crash();
});

describe.skipIf(!isRoot)("X16 volumes and volumes", () => {
  test("X16 calls for one volume wait for each other, another volume passes both", { timeout: 60_000 }, async () => {
    const rig = await startRig();
    rig.plugin.backend.addVolume({ id: "vol-2", capacity: 16n * 1024n * 1024n });
    await rig.start();
    rig.plugin.backend.addFault({ method: "NodeStageVolume", match: { volume: "vol-1" }, hangMs: 4_000 });
    const order: string[] = [];
    const done = async (what: string, act: Promise<unknown>): Promise<void> => {
      await act;
      order.push(what);
    };
    const first = done("vol-1 publish", rig.publishUntilSettled({ uid: "one", ctr: 1 }));
    await expect.poll(() => rig.plugin.backend.record().map(({ method }) => method)).toContain("NodeStageVolume");
    const released = done("vol-1 release", rig.releaseUntilSettled({ uid: "one", ctr: 1 }));
    await done("vol-2 publish", rig.publishUntilSettled({ uid: "two", ctr: 1, volume: "vol-2" }));
    await done("vol-2 release", rig.releaseUntilSettled({ uid: "two", ctr: 1, volume: "vol-2" }));
    await Promise.all([first, released]);
    expect(order).toEqual(["vol-2 publish", "vol-2 release", "vol-1 publish", "vol-1 release"]);
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });
});
