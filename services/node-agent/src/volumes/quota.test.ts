import { expect, test } from "vitest";
import { anyCaller, permitOrder, releaseOrder, startModelAgent, volumeRef } from "../testing/model-agent.ts";

test("a journal without room takes no permit, before anything is called; what is held can be released", async () => {
  const agent = await startModelAgent();
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  const calls = agent.host.calls.length;
  agent.disk().fullBecause = "no room in the state directory";
  await expect(
    agent.volumes().publish(permitOrder("b", 6, { oldestLiveEpoch: { gen: 1, ctr: 5 } }), anyCaller),
  ).rejects.toMatchObject({ reason: "JOURNAL_FULL", message: expect.stringContaining("no room") });
  expect(agent.host.calls).toHaveLength(calls);
  expect(Object.keys(agent.ledger().volume(volumeRef.volumeUid)?.claims ?? {})).toEqual(["a"]);
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
});

test("[M5] a journal that waits for room refuses every order at once, a release too, and takes the same one later", async () => {
  const agent = await startModelAgent();
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  const calls = agent.host.calls.length;
  agent.disk().waitsBecause = "the disk of the journal is full";
  const refused = { reason: "JOURNAL_FULL", message: "the disk of the journal is full" };
  await expect(agent.volumes().publish(permitOrder("a", 5), anyCaller)).rejects.toMatchObject(refused);
  await expect(agent.volumes().release(releaseOrder("a", 5), anyCaller)).rejects.toMatchObject(refused);
  expect(agent.host.calls).toHaveLength(calls);
  delete agent.disk().waitsBecause;
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
});
