/** The agent of one installation is pointed at the controllers of another one too: it is seen there, is given nothing, and keeps what it has. */
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { startCluster } from "../harness/cluster.ts";
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
if (!root) console.warn("SKIPPED: real mounts need root");

test.skipIf(!root)(
  "[I9] an agent of another installation is shown with its cure, and gone from there once that was done",
  { timeout: 90_000 },
  async () => {
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    onTestFinished(() => cluster.stop());
    const others = await startCluster({ nodes: [], controllerEnv: { HOLDFAST_LINK_GRACE: "300ms" } });
    onTestFinished(() => others.stop());
    const node = cluster.node("node-a");
    await makeVolume(cluster, "v");
    expect(stateName(await claimVolume(cluster, "v"))).toBe("ACTIVE");
    const mounts = await mountsUnder(node.rootDir);

    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_CONTROLLERS: [others.agentAddress, cluster.agentAddress].join() });
    const stuck = async () => (await others.repair.listStuck({ pageSize: 10 })).stuck;
    await until("it to be told", async () => (await stuck()).length > 0);
    const clearWith = expect.stringContaining('correct HOLDFAST_CONTROLLERS there, and "systemctl restart');
    expect(await stuck()).toMatchObject([
      { node: "node-a", state: "REFUSED", blocked: { reason: "CLUSTER_MISMATCH", clearWith } },
    ]);
    const { address } = others;
    const status = await cliRun(["node", "status", "node-a"], { address });
    expect([status.code, status.err]).toEqual([
      expect.any(Number),
      expect.stringMatching(/asks for the name node-a: it belongs to installation .*, this is /),
    ]);
    const doctor = await cliRun(["doctor"], { address });
    expect(doctor.out).toMatch(/FAULT +stuck +node-a: CLUSTER_MISMATCH/);
    expect((await others.nodes.listNodes({})).nodes).toEqual([]);
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);

    await node.agent().kill("SIGTERM");
    await node.startAgent();
    await until("nothing to be told any more", async () => (await stuck()).length === 0);
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);
    expect((await releaseWorkload(cluster, "w-v")).map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "v");
    await expectClean(cluster);
  },
);
