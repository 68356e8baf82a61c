/** A node that is killed for good under 50 claims: without evidence nothing moves, with it every claim goes elsewhere at once. */
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { NodeLossPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import { claimVolume, fileWriter, mountsUnder, namespace, plugin, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");

const ids = Array.from({ length: 50 }, (_, n) => `data-${n}`);
const waitFor = { seconds: 45n, nanos: 0 };

it.runIf(full && root)("[I1] [I2] [I7] 50 claims of a dead node", { timeout: 300_000 }, async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-dead-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const [fencer, answer, saidAt] = ["fencer", "answer", "said-at"].map((name) => path.join(dir, name)) as [
    string,
    string,
    string,
  ];
  // It knows nothing before the file is there, and notes when it said so.
  await writeFile(
    fencer,
    `#!/bin/sh\ncat >/dev/null\ntest -f ${answer} || exit 1\ndate +%s%3N >>${saidAt}\ncat ${answer}\n`,
  );
  await chmod(fencer, 0o755);
  const cluster = await startCluster({
    nodes: ["node-a", "node-b"],
    realMounts: true,
    controllerEnv: { HOLDFAST_LINK_GRACE: "1s", HOLDFAST_FENCER: fencer, HOLDFAST_FENCER_AFTER: "1s" },
  });
  onTestFinished(cluster.stop);
  const statesOf = async (workloads: string): Promise<readonly string[]> => {
    const { claims } = await cluster.claims.listClaims({ filter: { namespace }, pageSize: 500 });
    return claims.filter(({ workload }) => workload.startsWith(workloads)).map(stateName);
  };
  const all = (state: string) => ids.map(() => state);

  for (const id of ids) {
    await cluster.volumes.createVolume({
      ...{ namespace, id, plugin, capacity: { requiredBytes: 16n << 20n }, capabilities: [fileWriter], waitFor },
      policy: { nodeLoss: NodeLossPolicy.NODE_LOSS_POLICY_FENCE },
    });
    expect(stateName(await claimVolume(cluster, id))).toBe("ACTIVE");
    const next = { namespace, workload: `next-${id}`, node: "node-b", claims: [{ volume: id }] };
    await cluster.claims.createClaims({ ...next, queue: { enabled: true } });
  }
  const node = cluster.node("node-a");
  await node.agent().kill("SIGKILL");
  process.kill(node.plugin().pid, "SIGKILL");
  const nodeA = async () => (await cluster.nodes.getNode({ name: "node-a" })).node;
  await until("the fencer to have failed", async () => (await nodeA())?.stateMessage.includes("gave no evidence"));
  expect(await statesOf("w-")).toEqual(all("ACTIVE"));
  expect(await statesOf("next-")).toEqual(all("QUEUED"));
  for (const id of ids) {
    const { findings } = await cluster.volumes.explainVolume({ namespace, id });
    expect(findings.join("\n")).toContain("Node node-a is silent: its claims keep the volume");
  }

  await cluster.backend.client.fence("node-a");
  await writeFile(answer, '{"fenced": true, "evidence": "PDU 3, outlet 7: off"}\n');
  const moved = async (): Promise<boolean> => (await statesOf("next-")).every((state) => state === "ACTIVE");
  await until("every claim to be mounted elsewhere", moved, 120_000);
  const [said = ""] = (await readFile(saidAt, "utf8")).split("\n");
  console.log(`50 claims were mounted elsewhere ${Date.now() - Number(said)} ms after the fencer's answer`);
  for (const id of ids) {
    const { claim } = await cluster.claims.getClaim({ namespace, volume: id, workload: `w-${id}`, alias: id });
    expect(claim === undefined ? "" : stateName(claim), id).toBe("FENCED");
  }

  expect((await mountsUnder(node.rootDir)).length).toBeGreaterThan(0);
  await node.startPlugin();
  await node.startAgent();
  const ready = async (): Promise<boolean> => (await nodeA())?.state === NodeState.NODE_STATE_READY;
  await until("the node to be clean", ready, 120_000);
  expect(await mountsUnder(node.rootDir)).toEqual([]);
  expect(await statesOf("next-")).toEqual(all("ACTIVE"));
  expect(await cluster.backend.client.violations()).toEqual([]);
});
