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
    quarantined: () => false,
    registered: () => true,
    orphans: "report",
    clock: systemClock,
    log: createMemoryLogger(),
    signal: anyCaller,
    ...changes,
  });
}

describe("[U1] in quarantine", () => {
  test("all that is held is given back by the steps of a release, and every controller is told of it", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    await agent.volumes().publish(permitOrder("b", 6, { oldestLiveEpoch: { gen: 1, ctr: 5 } }), anyCaller);
    agent.setQuarantined(true);
    await upkeepOf(agent, { quarantined: () => true }).tick();
    expect(agent.host.mountedPaths()).toEqual([]);
    expect(agent.host.staged()).toEqual([]);
    const { claims, dead } = agent.ledger().volume(volumeRef.volumeUid) ?? {};
    expect(claims).toEqual({});
    expect(dead?.map(({ claimUid, late }) => [claimUid, late]).sort()).toEqual([
      ["a", true],
      ["b", true],
    ]);
  });

  test("what cannot be given back now is tried again", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const upkeep = upkeepOf(agent, { quarantined: () => true });
    agent.host.setPluginAway(true);
    await upkeep.tick();
    expect(agent.host.mountedPaths()).not.toEqual([]);
    agent.host.setPluginAway(false);
    await upkeep.tick();
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("no longer, nothing is touched", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const calls = agent.host.calls.length;
    await upkeepOf(agent).tick();
    expect(agent.host.calls).toHaveLength(calls);
  });
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
});
