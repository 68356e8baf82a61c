import { expect, test } from "vitest";
import { permitOrder, releaseOrder, startModelAgent } from "../testing/model-agent.ts";

const caller = new AbortController().signal;

test("[I5] a publication whose intent went with the power is undone all the same", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("done", "crash-after");
  void agent.volumes().publish(permitOrder("c1", 1), caller);
  await agent.crashed();
  expect(agent.host.owed()).not.toEqual([]);

  await agent.start({ lostPower: true });
  const released = await agent.volumes().release(releaseOrder("c1", 1), caller);
  expect(released.kind).toBe("released");
  expect(agent.host.owed()).toEqual([]);
});

test("[I5] what a start learns of the power's loss outlives the agent that learned it", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("done", "crash-after");
  void agent.volumes().publish(permitOrder("c1", 1), caller);
  await agent.crashed();

  await agent.start({ lostPower: true });
  agent.crash();
  await agent.start();
  await agent.volumes().release(releaseOrder("c1", 1), caller);
  expect(agent.host.owed()).toEqual([]);
});
