/**
 * Each service with a disk that is full: nothing that was acknowledged is lost, no release is lost, the refusal says which disk, and
 * everything goes on by itself once there is room.
 */
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
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
import { full } from "../support/full.ts";
import { mountTinyDisk, type TinyDisk } from "../support/tiny-disk.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: a full disk needs root, for a small tmpfs");

const tinyDisk = (mebibytes: number): TinyDisk => {
  const disk = mountTinyDisk(mebibytes * 1024);
  onTestFinished(() => disk.remove());
  return disk;
};
const ids = ["a", "b", "c", "d", "e", "f", "g", "h"];

it.runIf(full && root)(
  "[I2] [I4] the agent's journal: releases and claims wait for room, and none is lost",
  async () => {
    const disk = tinyDisk(4);
    const cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      agentEnv: { HOLDFAST_STATE_DIR: disk.dir, HOLDFAST_JOURNAL_MIN_FREE_BYTES: String(1 << 20) },
    });
    onTestFinished(() => cluster.stop());
    for (const id of [...ids, "late"]) await makeVolume(cluster, id);
    for (const id of ids) expect(stateName(await claimVolume(cluster, id))).toBe("ACTIVE");
    const agent = cluster.node("node-a").agent();
    disk.fill();
    const late = claimVolume(cluster, "late", { workload: "late" });
    const releases = ids.map((id) => releaseWorkload(cluster, `w-${id}`));
    await agent.line(
      (line) => String(line["message"]).includes("the disk of the journal is full"),
      "that its disk is full",
    );
    const told = await until("the claim to say what it waits for", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload: "late" } });
      return claims[0]?.lastError?.message;
    });
    expect(told).toMatch(`${disk.dir}`);
    expect(told).toMatch(/free some space/);
    disk.empty();
    expect(stateName(await late)).toBe("ACTIVE");
    for (const release of releases) expect((await release).map(stateName)).toEqual(["RELEASED"]);
    expect(agent.running(), "the same process all the time").toBe(true);
    expect((await releaseWorkload(cluster, "late")).map(stateName)).toEqual(["RELEASED"]);
    for (const id of [...ids, "late"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);

it.runIf(full && root)(
  "[I4] the agent ends and starts on the full disk: what was released meanwhile is released",
  async () => {
    const disk = tinyDisk(4);
    const cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      agentEnv: { HOLDFAST_STATE_DIR: disk.dir, HOLDFAST_JOURNAL_MIN_FREE_BYTES: "0" },
    });
    onTestFinished(() => cluster.stop());
    for (const id of ids) {
      await makeVolume(cluster, id);
      await claimVolume(cluster, id);
    }
    const node = cluster.node("node-a");
    disk.fill();
    const releases = ids.map((id) => releaseWorkload(cluster, `w-${id}`));
    await node
      .agent()
      .line((line) => String(line["message"]).includes("the disk of the journal is full"), "a full disk");
    expect(await node.agent().kill("SIGTERM"), node.agent().output()).toBe(0);
    const next = await node.startAgent();
    disk.empty();
    for (const release of releases) expect((await release).map(stateName)).toEqual(["RELEASED"]);
    expect(next.running()).toBe(true);
    for (const id of ids) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);

it.runIf(full && root)(
  "[I2] the controller's store: what it acknowledged stays, the rest is refused by its name",
  async () => {
    const disk = tinyDisk(6);
    const cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      store: `sqlite://${disk.dir}/store.db`,
      controllerEnv: { HOLDFAST_STATE_DIR: `${disk.dir}/state` },
    });
    onTestFinished(() => cluster.stop());
    const claimed = ["a", "b"];
    for (const id of claimed) {
      await makeVolume(cluster, id);
      expect(stateName(await claimVolume(cluster, id))).toBe("ACTIVE");
    }
    await makeVolume(cluster, "late");
    disk.fill();
    const full = { reason: "STORE_UNAVAILABLE", message: expect.stringMatching(/store\.db failed: .*free some space/) };
    const stored: string[] = [];
    let refusal: unknown;
    for (let n = 0; refusal === undefined; n += 1)
      await makeVolume(cluster, `v${n}`).then(
        () => stored.push(`v${n}`),
        (error: unknown) => {
          refusal = error;
        },
      );
    expect(refusal).toMatchObject(full);
    await expect(claimVolume(cluster, "late", { workload: "late" })).rejects.toMatchObject(full);
    await expect(releaseWorkload(cluster, "w-a")).rejects.toMatchObject(full);
    // What needs no write is answered.
    expect((await cluster.claims.listClaims({ filter: { namespace, workload: "w-a" } })).claims.map(stateName)).toEqual(
      ["ACTIVE"],
    );
    expect(cluster.controller().running()).toBe(true);
    await cluster.controller().kill("SIGKILL");
    await expect(cluster.startController()).rejects.toThrow(/cannot be written: ENOSPC.*free some space/);
    disk.empty();
    await cluster.startController();
    for (const id of stored) await cluster.volumes.getVolume({ namespace, id });
    for (const id of claimed) {
      const over = await persistently(`the release of ${id}`, () => releaseWorkload(cluster, `w-${id}`));
      expect(over.map(stateName)).toEqual(["RELEASED"]);
    }
    const lates = await cluster.claims.listClaims({ filter: { namespace, workload: "late" } });
    expect(lates.claims, "what was refused is not there").toEqual([]);
    expect(stateName(await claimVolume(cluster, "late", { workload: "late" }))).toBe("ACTIVE");
    await releaseWorkload(cluster, "late");
    for (const id of [...claimed, "late", ...stored]) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);
