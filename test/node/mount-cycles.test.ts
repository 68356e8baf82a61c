/** Claimed and released, over and over, on filesystems in loop devices: the kernel's tables are after as they were before. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { loopsUnder } from "../harness/loop-files.ts";
import { type MountNamespace, startMountNamespace } from "../harness/mount-namespace.ts";
import { claimVolume, fileWriter, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");

const kinds = [
  { fsType: "ext4", bytes: 32n << 20n },
  { fsType: "xfs", bytes: 320n << 20n },
] as const;
/** Of each of the two. */
const cycles = sample(250, 5);

describe.skipIf(!root)("mount cycles in a mount namespace of their own", () => {
  let space: MountNamespace;
  let cluster: Cluster;

  beforeAll(async () => {
    space = await startMountNamespace();
    cluster = await startCluster({ nodes: ["node-a"], localDriver: {}, mountsOf: () => space.pid });
  });
  afterAll(async () => {
    await cluster?.stop();
    await space?.end();
  });

  /** Mounts of the volume's own device and of its paths, and the devices themselves. */
  const tables = async (): Promise<readonly string[]> => [
    ...(await space.lines(cluster.dir)),
    ...(await loopsUnder(cluster.dir)).map(({ file }) => file),
  ];

  test.each(kinds)(
    `[I2] [I5] [I6] $fsType, ${cycles} times: mounted where it was answered, and nothing of it afterwards`,
    { timeout: 60_000 + cycles * 6_000 },
    async ({ fsType, bytes }) => {
      const id = `cycle-${fsType}`;
      const parameters = { type: "image", fsType };
      await makeVolume(cluster, id, fileWriter, { plugin: "local.holdfast.dev", bytes, parameters });
      const before = await tables();
      expect(before).toEqual([]);
      for (let cycle = 0; cycle < cycles; cycle += 1) {
        const workload = `w-${fsType}-${cycle}`;
        const claim = await claimVolume(cluster, id, { workload });
        expect(stateName(claim), `cycle ${cycle}`).toBe("ACTIVE");
        const shown = (await space.lines(` ${claim.hostPath} `)).map((line) => line.split(" - ")[1]?.split(" ")[0]);
        expect(shown, `cycle ${cycle}`).toEqual([fsType]);
        // One device for the stage and the publication, however often.
        expect(await loopsUnder(cluster.dir)).toHaveLength(1);
        // Nothing of it is mounted outside of the namespace.
        expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(claim.hostPath);
        const kept = path.join(space.inside(claim.hostPath), "kept");
        if (cycle > 0) expect(await readFile(kept, "utf8")).toBe(String(cycle - 1));
        await writeFile(kept, String(cycle));
        const over = await releaseWorkload(cluster, workload);
        expect(over.map(stateName), `cycle ${cycle}`).toEqual(["RELEASED"]);
        expect(await tables(), `cycle ${cycle}`).toEqual(before);
      }
      await removeVolume(cluster, id);
      expect(await tables()).toEqual(before);
    },
  );
});
