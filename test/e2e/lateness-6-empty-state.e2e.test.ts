/**
 * A machine of the same image starts under the name of a node: the same machine id, an empty state directory, while the agent of the node
 * is stopped, so that no controller has its stream, and what it mounted is in use. Time admits nobody; a person does.
 */
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { describe, expect, onTestFinished, test } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import { startMountNamespace } from "../harness/mount-namespace.ts";
import { startNodeCopy } from "../harness/node-copy.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts and mount namespaces need root");

describe.skipIf(!root)(
  "lateness 6: an empty state directory under the name of a silent node",
  { timeout: 90_000 },
  () => {
    test("[I1] [I7] it waits for a person, and the node goes on when it speaks again", async () => {
      const controllerEnv = { HOLDFAST_LINK_GRACE: "300ms" };
      const cluster = await startCluster({ nodes: ["node-a"], realMounts: true, controllerEnv });
      onTestFinished(() => cluster.stop());
      const node = cluster.node("node-a");
      await makeVolume(cluster, "v");
      const before = await claimVolume(cluster, "v");
      expect(stateName(before)).toBe("ACTIVE");
      const mounts = await mountsUnder(node.rootDir);
      node.agent().signal("SIGSTOP");
      onTestFinished(() => node.agent().signal("SIGCONT"));

      const bootId = path.join(cluster.dir, "boot-id");
      await writeFile(bootId, "11111111-2222-3333-4444-555555555555\n");
      const space = await startMountNamespace({ over: { "/proc/sys/kernel/random/boot_id": bootId } });
      onTestFinished(async () => void (await space.end()));
      const stateDir = path.join(cluster.dir, "empty-state");
      await mkdir(stateDir, { mode: 0o700 });
      const copy = await startNodeCopy(cluster, node, {
        stateDir,
        machineIdFile: machineIdFile(),
        mountsOf: space.pid,
      });
      onTestFinished(() => copy.stop());
      // Silence alone would let it in. A process that is stopped ends no connection: the keepalive does, within 15 seconds.
      await until("the stranger to be let in, or to wait beside a silent node", async () => {
        const { node: seen } = await cluster.nodes.getNode({ name: "node-a" });
        return (
          seen?.bootId.startsWith("1111") ||
          (seen?.blocked?.reason === "NODE_PENDING" && seen.state === NodeState.NODE_STATE_SUSPECT)
        );
      });
      expect(copy.agent.output()).not.toContain('"message":"ready"');

      const { stuck } = await cluster.repair.listStuck({ pageSize: 10 });
      expect(stuck).toMatchObject([{ node: "node-a", state: "PENDING", blocked: { reason: "NODE_PENDING" } }]);
      const { nextActions } = await cluster.volumes.explainVolume({ namespace, id: "v" });
      expect(nextActions.join("\n")).toContain("holdfast node admit node-a ");

      node.agent().signal("SIGCONT");
      expect((await releaseWorkload(cluster, "w-v")).map(stateName)).toEqual(["RELEASED"]);
      expect(mounts).not.toEqual([]);
      expect(await mountsUnder(node.rootDir)).toEqual([]);
      await removeVolume(cluster, "v");
      expect(await copy.changes()).toEqual([]);
      await expectClean(cluster);
    });
  },
);
