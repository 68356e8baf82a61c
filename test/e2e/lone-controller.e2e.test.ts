/** A controller alone with its file waits for no other one: its own events, also those of its former life, are nobody else's. */
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, expectClean, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** Longer than a round in which controllers settle who calls a plugin. */
const settlingMs = 2_600;

describe.skipIf(!root)("a lone controller on SQLite", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster.stop());

  const turns = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n += 1) {
      expect(stateName(await claimVolume(cluster, "data"))).toBe("ACTIVE");
      expect((await releaseWorkload(cluster, "w-data")).map(stateName)).toEqual(["RELEASED"]);
    }
  };
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, settlingMs));
  /** What controllers tell each other of who calls which plugin. */
  const leases = (): readonly unknown[] => {
    const file = new DatabaseSync(path.join(cluster.dir, "store.db"), { readOnly: true });
    try {
      return file.prepare("SELECT key FROM records WHERE kind = 'meta' AND key LIKE 'driver/%'").all();
    } finally {
      file.close();
    }
  };

  it("leaves no lease of a plugin behind, and honours none, over a restart with claims before and after", async () => {
    await makeVolume(cluster, "data");
    await turns(10);
    await pause();
    await turns(1);
    await cluster.controller().kill("SIGKILL");
    expect(leases()).toEqual([]);
    await cluster.startController();
    await pause();
    await turns(5);
    await removeVolume(cluster, "data");
    await expectClean(cluster);
    await cluster.controller().kill("SIGKILL");
    expect(leases()).toEqual([]);
    expect(cluster.output()).not.toContain("this controller makes the calls of a plugin now");
  });
});
