import { describe, expect, test } from "vitest";
import {
  anyCaller,
  type ModelAgent,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";

const paths = modelPaths.of(volumeRef.plugin, volumeRef.externalId);
const target = paths.target("a");
const phaseOf = (agent: ModelAgent, uid = "a") => agent.ledger().volume(volumeRef.volumeUid)?.claims[uid]?.phase;
const lostOf = (agent: ModelAgent) =>
  agent
    .watch()
    .lost()
    .map(({ claimUid, reason }) => [claimUid, reason]);

async function published(fsType: string, policy?: "restage" | "report"): Promise<ModelAgent> {
  const agent = await startModelAgent(policy);
  agent.host.mounting.fsType = fsType;
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  return agent;
}

describe("what is published", () => {
  test("[D1] and served by the kernel itself is looked at in the mount table alone", async () => {
    const agent = await published("ext4");
    await agent.watch().check();
    expect(agent.host.mounting.looks).toEqual([]);
    expect(lostOf(agent)).toEqual([]);
    expect(phaseOf(agent)).toBe("published");
  });

  test("and has vanished is lost: in doubt, told, and made anew by its permit", async () => {
    const agent = await published("ext4");
    agent.host.unmount(target);
    await agent.watch().check();
    expect(phaseOf(agent)).toBe("unsure");
    expect(lostOf(agent)).toEqual([["a", "MOUNT_MISSING"]]);
    await agent.watch().check();
    expect(agent.watch().lost()).toHaveLength(1);
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(agent.host.mountedPaths()).toContain(target);
    expect(lostOf(agent)).toEqual([]);
  });

  test("and is released meanwhile is not lost any more", async () => {
    const agent = await published("ext4");
    agent.host.unmount(target);
    await agent.watch().check();
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(lostOf(agent)).toEqual([]);
  });
});

describe("a user-space file system whose process is gone", () => {
  test("[D3] is unmounted, target and stage, before its volume is staged again: never mounted over", async () => {
    const agent = await published("fuse.sim");
    agent.host.setAiling("dead", [target, paths.staging]);
    await agent.watch().check();
    expect(phaseOf(agent)).toBe("unsure");
    expect(lostOf(agent)).toEqual([["a", "MOUNT_DEAD"]]);
    expect(agent.volumes().halts().get(volumeRef.volumeUid)?.reason).toBe("MOUNT_DEAD");
    expect(agent.host.mounting.unmounts).toEqual([]);
    const again = await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(again).toMatchObject({ kind: "published" });
    expect([...agent.host.mounting.unmounts].sort()).toEqual([target, paths.staging].sort());
    expect(agent.host.calls.map((call) => call.split(" ")[0])).toEqual([
      "NodeStageVolume",
      "NodePublishVolume",
      "NodeStageVolume",
      "NodePublishVolume",
    ]);
    expect(agent.host.mountedPaths()).toHaveLength(2);
    expect(agent.volumes().halts().size).toBe(0);
    expect(lostOf(agent)).toEqual([]);
  });

  test("and cannot be unmounted: nothing is called, and the answer says what is in the way", async () => {
    const agent = await published("fuse.sim");
    agent.host.setAiling("dead", [target]);
    await agent.watch().check();
    agent.host.mounting.unmountsWork = false;
    const calls = agent.host.calls.length;
    const answer = await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(answer).toMatchObject({ kind: "uncertain", halt: { reason: "MOUNT_DEAD", blocked: {} } });
    expect(agent.host.calls).toHaveLength(calls);
  });

  test("is only told where the node wants that", async () => {
    const agent = await published("fuse.sim", "report");
    agent.host.setAiling("dead", [target]);
    await agent.watch().check();
    expect(phaseOf(agent)).toBe("published");
    expect(lostOf(agent)).toEqual([]);
    const { volumes } = await agent.volumes().inventory();
    expect(volumes[0]?.halt?.reason).toBe("MOUNT_DEAD");
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(agent.host.mounting.unmounts).toEqual([]);
  });

  test("all claims of the volume are lost with it, and found so after a restart too", async () => {
    const agent = await published("fuse.sim");
    await agent.volumes().publish(permitOrder("b", 6, { oldestLiveEpoch: { gen: 1, ctr: 5 } }), anyCaller);
    agent.host.setAiling("dead", [target, paths.target("b"), paths.staging]);
    await agent.start();
    await agent.watch().check();
    expect([phaseOf(agent, "a"), phaseOf(agent, "b")]).toEqual(["unsure", "unsure"]);
    expect(lostOf(agent)).toHaveLength(2);
  });
});

describe("a file system that hangs", () => {
  test("[D2] is a state of its volume: shown, not lost, not unmounted, and over when it answers", async () => {
    for (const fsType of ["fuse.sim", "nfs4"]) {
      const agent = await published(fsType);
      agent.host.setAiling("hung", [target]);
      await agent.watch().check();
      const { volumes } = await agent.volumes().inventory();
      expect(volumes[0]?.halt).toMatchObject({ reason: "MOUNT_HUNG", blocked: {} });
      expect(phaseOf(agent)).toBe("published");
      expect(lostOf(agent)).toEqual([]);
      expect(agent.host.mounting.unmounts).toEqual([]);
      agent.host.setAiling("hung", []);
      await agent.watch().check();
      expect(agent.volumes().halts().size).toBe(0);
    }
  });

  test("is forgotten with its volume: once nothing of that is here, nothing of it is halted", async () => {
    const agent = await published("nfs4");
    agent.host.setAiling("hung", [target]);
    await agent.watch().check();
    expect(agent.volumes().halts().size).toBe(1);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.volumes().halts().size).toBe(0);
    const { volumes } = await agent.volumes().inventory();
    expect(volumes.map(({ halt }) => halt)).toEqual([undefined]);
  });

  test("looks that are asked for while one is under way are one more", async () => {
    const agent = await published("nfs4");
    await Promise.all([1, 2, 3, 4].map(() => agent.watch().check()));
    expect(agent.host.mounting.looks).toEqual([target, target]);
  });
});
