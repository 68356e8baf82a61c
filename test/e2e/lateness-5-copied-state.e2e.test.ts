/**
 * A clone of a machine starts beside the living original, with a copy of the state directory of the agent: the same name, machine id and
 * journal. The clone is given nothing, and what it says proves nothing about what the original has mounted.
 */
import { cp, writeFile } from "node:fs/promises";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { describe, expect, onTestFinished, test } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import { startMountNamespace } from "../harness/mount-namespace.ts";
import { startNodeCopy } from "../harness/node-copy.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts and mount namespaces need root");

describe.skipIf(!root)("lateness 5: a copied state directory beside the living original", { timeout: 60_000 }, () => {
  test.each(["another boot", "the same boot"])(
    "[I1] [I2] on %s: no permit, no release, two agents told",
    async (boot) => {
      const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
      onTestFinished(() => cluster.stop());
      const node = cluster.node("node-a");
      await makeVolume(cluster, "v");
      expect(stateName(await claimVolume(cluster, "v"))).toBe("ACTIVE");
      const mounts = await mountsUnder(node.rootDir);

      const bootId = path.join(cluster.dir, "boot-id");
      await writeFile(bootId, "11111111-2222-3333-4444-555555555555\n");
      const over = boot === "another boot" ? { "/proc/sys/kernel/random/boot_id": bootId } : {};
      const space = await startMountNamespace({ over });
      onTestFinished(async () => void (await space.end()));
      const stateDir = path.join(cluster.dir, "copied-state");
      await cp(node.stateDir, stateDir, { recursive: true });
      const copy = await startNodeCopy(cluster, node, {
        stateDir,
        machineIdFile: machineIdFile(),
        mountsOf: space.pid,
      });
      onTestFinished(() => copy.stop());
      // Either it was let in, or it was told no and goes on asking.
      await copy.agent.line(
        ({ message }) => message === "ready" || String(message).startsWith("a registration was not answered"),
        "what became of its registration",
      );
      expect.soft(copy.agent.output()).not.toContain('"message":"ready"');
      const { node: told } = await cluster.nodes.getNode({ name: "node-a" });
      expect.soft(told).toMatchObject({
        bootId: expect.not.stringMatching(/^1111/),
        blocked: { reason: "NODE_PENDING", clearWith: expect.stringContaining("holdfast node admit node-a ") },
      });
      expect.soft(copy.agent.output()).toContain("NODE_CONFLICT");

      expect(await mountsUnder(node.rootDir)).toEqual(mounts);
      expect((await releaseWorkload(cluster, "w-v")).map(stateName)).toEqual(["RELEASED"]);
      await until("the mounts of the original to be gone", async () => (await mountsUnder(node.rootDir)).length === 0);
      await removeVolume(cluster, "v");
      expect(await copy.changes()).toEqual([]);
      await expectClean(cluster);
    },
  );
});
