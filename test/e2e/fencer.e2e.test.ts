/** A program of the operator is asked for the evidence, over real processes: nothing moves before it gives some. */
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { NodeLossPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, fileWriter, makeVolume, namespace, plugin, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("a fencer", () => {
  let cluster: Cluster;
  let dir: string;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-fencer-"));
    const fencer = path.join(dir, "fencer");
    // It knows nothing before the file is there.
    const script = `#!/bin/sh\ncat >>${dir}/asked\necho >>${dir}/asked\ncat ${dir}/answer\n`;
    await writeFile(fencer, script);
    await chmod(fencer, 0o755);
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s", HOLDFAST_FENCER: fencer, HOLDFAST_FENCER_AFTER: "1s" },
    });
  });
  afterAll(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const nodeA = async () => (await cluster.nodes.getNode({ name: "node-a" })).node;
  const asked = async (): Promise<readonly string[]> =>
    (await readFile(path.join(dir, "asked"), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  const stateOf = async (volume: string): Promise<string> => {
    const { claim } = await cluster.claims.getClaim({ namespace, volume, workload: `w-${volume}`, alias: volume });
    return claim === undefined ? "" : stateName(claim);
  };

  it("[I7] that has no evidence moves nothing; with it the claim ends and the volume is free", async () => {
    await cluster.volumes.createVolume({
      ...{ namespace, id: "data", plugin, capacity: { requiredBytes: 16n << 20n }, capabilities: [fileWriter] },
      policy: { nodeLoss: NodeLossPolicy.NODE_LOSS_POLICY_FENCE },
      waitFor: { seconds: 45n, nanos: 0 },
    });
    expect(stateName(await claimVolume(cluster, "data"))).toBe("ACTIVE");
    await cluster.node("node-a").agent().kill("SIGKILL");
    await until("the fencer to have been asked", async () => (await asked()).length > 0);
    const { machineId = "", bootId = "" } = (await nodeA()) ?? {};
    expect(JSON.parse((await asked())[0] ?? "")).toEqual({
      ...{ node: "node-a", machine_id: machineId, boot_id: bootId, node_epoch: 1 },
    });
    await until("its failure to be shown", async () =>
      (await nodeA())?.stateMessage.includes("gave no evidence that it is off"),
    );
    expect([(await nodeA())?.state, await stateOf("data")]).toEqual([NodeState.NODE_STATE_SUSPECT, "ACTIVE"]);

    await cluster.backend.client.fence("node-a");
    await writeFile(path.join(dir, "answer"), '{"fenced": true, "evidence": "PDU 3, outlet 7: off"}\n');
    await until("the claim to end", async () => (await stateOf("data")) === "FENCED", 60_000);
    await until("the node to be fenced", async () => (await nodeA())?.state === NodeState.NODE_STATE_QUARANTINED);
    expect((await nodeA())?.stateMessage).toContain("(power-off): PDU 3, outlet 7: off");
    const { records } = await cluster.repair.listAudit({ verb: "FenceNode" });
    expect(records).toMatchObject([{ node: "node-a", evidence: "PDU 3, outlet 7: off" }]);
    expect(records[0]?.who).toMatch(/^fencer\//);
    expect(stateName(await claimVolume(cluster, "data", { node: "node-b", workload: "next" }))).toBe("ACTIVE");
    expect(await cluster.backend.client.violations()).toEqual([]);
    // A volume whose policy is to wait is nobody's but a person's.
    await makeVolume(cluster, "kept");
    expect(stateName(await claimVolume(cluster, "kept", { node: "node-b" }))).toBe("ACTIVE");
    const before = (await asked()).length;
    await cluster.node("node-b").agent().kill("SIGKILL");
    await until("node-b to be silent", async () => {
      const { node } = await cluster.nodes.getNode({ name: "node-b" });
      return node?.stateMessage.includes("the fencer is not asked");
    });
    expect(await asked()).toHaveLength(before);
  });
});
