import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, test } from "vitest";
import {
  anyCaller,
  type ModelAgent,
  modelPaths,
  permitOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";
import { createUpkeep, type UpkeepOptions } from "./upkeep.ts";

function upkeepOf(agent: ModelAgent, changes: Partial<UpkeepOptions> = {}) {
  return createUpkeep({
    ledger: agent.ledger(),
    volumes: agent.volumes(),
    mounts: agent.host.mounts,
    paths: modelPaths,
    children: agent.host.children,
    registered: () => true,
    orphans: "report",
    clock: systemClock,
    log: createMemoryLogger(),
    signal: anyCaller,
    ...changes,
  });
}

test("[U1] in quarantine nothing is given back without an order", async () => {
  const agent = await startModelAgent();
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  agent.setQuarantined(true);
  const calls = agent.host.calls.length;
  await upkeepOf(agent).tick();
  expect(agent.host.calls).toHaveLength(calls);
  expect(agent.host.mountedPaths()).not.toEqual([]);
});

describe("[U2] a mount that nothing explains", () => {
  const orphan = modelPaths.of("model", "other").staging;
  const startWith = async (changes: Partial<UpkeepOptions>) => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    agent.host.addMount(orphan, "9:9", "/");
    return { agent, upkeep: upkeepOf(agent, changes) };
  };

  test("goes where the node wants that, after two looks; what is explained stays", async () => {
    const { agent, upkeep } = await startWith({ orphans: "unmount" });
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([]);
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([orphan]);
    expect(agent.host.mountedPaths()).toHaveLength(2);
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([orphan]);
  });

  test.each([
    ["by default", {}],
    ["before a controller has answered", { orphans: "unmount", registered: () => false }],
  ] as const)("stays %s", async (_, changes) => {
    const { agent, upkeep } = await startWith(changes);
    for (let count = 0; count < 3; count += 1) await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([]);
  });

  test("and is in use stays, and is tried again", async () => {
    const { agent, upkeep } = await startWith({ orphans: "unmount" });
    agent.host.mounting.unmountsWork = false;
    for (let count = 0; count < 3; count += 1) await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([orphan, orphan]);
  });

  test("[U3] and is what a permit takes over before it is unmounted, stays: it is a workload's volume now", async () => {
    const agent = await startModelAgent();
    const target = modelPaths.of(volumeRef.plugin, volumeRef.externalId).target("a");
    for (const path of [target, orphan]) agent.host.addMount(path, "9:1", "/");
    const { children } = agent.host;
    let taken = 0;
    const run: typeof children.run = async (volume, command, args) => {
      if (command !== "umount") return children.run(volume, command, args);
      taken += 1;
      // Both were seen twice, and this is the other one's turn.
      expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
      return children.run(volume, command, args);
    };
    const upkeep = upkeepOf(agent, { orphans: "unmount", children: { ...children, run } });
    for (let count = 0; count < 3; count += 1) await upkeep.tick();
    expect(taken).toBe(1);
    expect(agent.host.mounting.unmounts).toEqual([orphan]);
    expect(agent.host.mountedPaths()).toContain(target);
  });

  test("[U3] with something mounted over it stays: that would go in its place", async () => {
    const agent = await startModelAgent();
    agent.host.addMount(orphan, "9:9", "/");
    let covered = true;
    const look: UpkeepOptions["mounts"]["look"] = async (everywhere) => {
      const view = await agent.host.mounts.look(everywhere);
      const above = (path: string) => view.at(path).map((line) => ({ ...line, id: line.id + 1_000 }));
      return covered ? { ...view, at: (path) => [...view.at(path), ...above(path)] } : view;
    };
    const upkeep = upkeepOf(agent, { orphans: "unmount", mounts: { look } });
    for (let count = 0; count < 3; count += 1) await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([]);
    covered = false;
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([orphan]);
  });

  test("[U3] of a volume that is busy is left for later, and holds up no other", async () => {
    const { agent, upkeep } = await startWith({ orphans: "unmount" });
    const other = modelPaths.of("model", "third").staging;
    agent.host.addMount(other, "9:7", "/");
    await upkeep.tick();
    const busy = Promise.withResolvers<void>();
    const { publish } = modelPaths.of("model", "other");
    const working = agent.volumes().alone(publish, anyCaller, () => busy.promise);
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([other]);
    busy.resolve();
    await working;
    await upkeep.tick();
    expect(agent.host.mounting.unmounts).toEqual([other, orphan]);
  });
});
