import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMetrics } from "@holdfast/shared/metrics";
import { expect, test } from "vitest";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";
import { meterVolumes } from "./volume-metrics.ts";

async function startMetered() {
  const agent = await startModelAgent();
  const metrics = createMetrics();
  const clock = createManualClock();
  const { ledger, watch } = agent;
  const volumes = meterVolumes(agent.volumes(), { metrics, ledger: ledger(), lost: watch().lost, clock });
  const value = async (line: string): Promise<number | undefined> => {
    const found = (await metrics.text()).split("\n").find((it) => it.startsWith(`${line} `));
    return found === undefined ? undefined : Number(found.split(" ").at(-1));
  };
  return { agent, volumes, clock, value };
}

test("each order is counted with its plugin, its operation and how it ended", async () => {
  const { agent, volumes, value } = await startMetered();
  const count = (operation: string, code: string) =>
    value(`holdfast_order_seconds_count{plugin="model",operation="${operation}",code="${code}"}`);
  await volumes.publish(permitOrder("a", 5), anyCaller);
  expect(await count("publish", "OK")).toBe(1);
  await volumes.publish(permitOrder("a", 5, { context: { lun: "2" } }), anyCaller);
  expect(await count("publish", "PERMIT_CHANGED")).toBe(1);
  await volumes.publish(permitOrder("b", 4), anyCaller);
  expect(await count("publish", "FLOOR")).toBe(1);
  agent.host.fates.push("lost-before");
  await volumes.release(releaseOrder("a", 5), anyCaller);
  expect(await count("release", "DEADLINE_EXCEEDED")).toBe(1);
  await volumes.release(releaseOrder("a", 5), anyCaller);
  expect(await count("release", "OK")).toBe(1);
  const order = { ref: volumeRef, nodeEpoch: 1, capacity: undefined, usedAs: undefined, secrets: {} };
  await volumes.expand(order, anyCaller);
  expect(await count("expand", "VOLUME_NOT_HERE")).toBe(1);
});

test("what waits, what is staged and published, and what is lost", async () => {
  const { agent, volumes, value } = await startMetered();
  const open = 'holdfast_orders_open{plugin="model",operation="publish"}';
  expect(await value(open)).toBeUndefined();
  const both = [
    volumes.publish(permitOrder("a", 5), anyCaller),
    volumes.publish(permitOrder("b", 6, { oldestLiveEpoch: { gen: 1, ctr: 5 } }), anyCaller),
  ];
  expect(await value(open)).toBe(2);
  await Promise.all(both);
  expect(await value(open)).toBe(0);
  expect(await value('holdfast_staged_volumes{plugin="model"}')).toBe(1);
  expect(await value('holdfast_publications{plugin="model"}')).toBe(2);
  agent.host.unmount(modelPaths.of(volumeRef.plugin, volumeRef.externalId).target("a"));
  await agent.watch().check();
  expect(await value("holdfast_lost_publications")).toBe(1);
  expect(await value('holdfast_publications{plugin="model"}')).toBe(1);
  await volumes.release(releaseOrder("a", 5), anyCaller);
  await volumes.release(releaseOrder("b", 6), anyCaller);
  expect(await value('holdfast_staged_volumes{plugin="model"}')).toBe(0);
  expect(await value("holdfast_lost_publications")).toBe(0);
});

test("what cannot go on is counted by its reason", async () => {
  const { agent, volumes, value } = await startMetered();
  agent.host.setPluginAway(true);
  await volumes.publish(permitOrder("a", 5), anyCaller);
  agent.host.setPluginAway(false);
  agent.host.fates.push("done", "blocked");
  await volumes.publish(permitOrder("a", 5), anyCaller);
  expect(await value('holdfast_halted_volumes{reason="PLUGIN_REFUSED"}')).toBe(1);
});
