/**
 * A node that is killed for good under 50 claims: without a fencer, and with one that knows nothing, nothing moves and each claim says why;
 * with its evidence every claim goes elsewhere. When the node comes back with its old mounts it takes nothing before it is clean.
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { NodeLossPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import { claimVolume, fileWriter, mountsUnder, namespace, plugin, reasonOf, stateName } from "../harness/scenario.ts";
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
    controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
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
  const becomes = (state: NodeState, timeoutMs?: number) =>
    until(`node-a to be in state ${state}`, async () => (await nodeA())?.state === state, timeoutMs);
  const nothingMoved = async (): Promise<void> => {
    expect(await statesOf("w-")).toEqual(all("ACTIVE"));
    expect(await statesOf("next-")).toEqual(all("QUEUED"));
    for (const id of ids) {
      const { findings, nextActions } = await cluster.volumes.explainVolume({ namespace, id });
      expect(findings.join("\n"), id).toContain("Node node-a is silent: its claims keep the volume");
      expect(nextActions, id).toContain("holdfast node fence node-a");
    }
    expect(await changes()).toEqual(before);
  };
  /** What the plugins were asked to change, in this order. */
  const changes = async () =>
    (await cluster.backend.client.record()).filter(({ method }) => /(Publish|Unpublish|Stage|Unstage)/i.test(method));
  const before = await changes();

  // Without a fencer.
  await becomes(NodeState.NODE_STATE_SUSPECT);
  await nothingMoved();
  // With one that has no evidence.
  await cluster.controller().kill("SIGTERM");
  await cluster.startController({ HOLDFAST_FENCER: fencer, HOLDFAST_FENCER_AFTER: "1s" });
  await until("the fencer to have failed", async () => (await nodeA())?.stateMessage.includes("gave no evidence"));
  await nothingMoved();

  await cluster.backend.client.fence("node-a");
  await writeFile(answer, '{"fenced": true, "evidence": "PDU 3, outlet 7: off"}\n');
  // Seldom, for the controller that is asked is the one that moves them; the plugins' own book says when.
  const moved = async (): Promise<boolean> => {
    await new Promise((resolve) => setTimeout(resolve, 250));
    return (await statesOf("next-")).every((state) => state === "ACTIVE");
  };
  await until("every claim to be mounted elsewhere", moved, 120_000);
  const [said = ""] = (await readFile(saidAt, "utf8")).split("\n");
  const moving = (await changes()).slice(before.length);
  const since = (at: string | undefined): number => Date.parse(at ?? "") - Number(said);
  for (const method of new Set(moving.map((call) => call.method))) {
    const calls = moving.filter((call) => call.method === method);
    const [first, last] = [calls.map(({ at }) => since(at)), calls.map(({ endedAt }) => since(endedAt))];
    console.log(
      `${calls.length} ${method}: from ${Math.min(...first)} to ${Math.max(...last)} ms after the fencer's answer`,
    );
  }
  for (const id of ids) {
    const { claim } = await cluster.claims.getClaim({ namespace, volume: id, workload: `w-${id}`, alias: id });
    expect(claim === undefined ? "" : stateName(claim), id).toBe("FENCED");
  }

  // It comes back with its old mounts, and one of them takes its time, so that the quarantine is seen.
  const mounts = await mountsUnder(node.rootDir);
  expect(mounts.length).toBeGreaterThanOrEqual(ids.length);
  const moves = (await changes()).length;
  await cluster.backend.client.addFault({ method: "NodeUnstageVolume", hangMs: 3_000, when: "before", times: 1 });
  await node.startPlugin();
  await node.startAgent();
  await until("its cleaning to begin", async () => (await changes()).length > moves);
  await becomes(NodeState.NODE_STATE_QUARANTINED);
  await cluster.volumes.createVolume({
    ...{ namespace, id: "early", plugin, capacity: { requiredBytes: 16n << 20n }, capabilities: [fileWriter], waitFor },
  });
  expect(await reasonOf(claimVolume(cluster, "early"))).toBe("NODE_NOT_READY");
  await becomes(NodeState.NODE_STATE_READY, 120_000);
  expect(await mountsUnder(node.rootDir)).toEqual([]);
  // Each volume by itself: every target first, then the stage, and nothing is mounted.
  const cleaned = (await changes()).slice(moves).filter(({ node: at }) => at === "node-a");
  for (const { volume } of cleaned)
    expect(cleaned.filter((call) => call.volume === volume).map(({ method }) => method)).toEqual([
      "NodeUnpublishVolume",
      "NodeUnstageVolume",
    ]);
  expect(cleaned).toHaveLength(2 * ids.length);
  expect(await statesOf("next-")).toEqual(all("ACTIVE"));
  expect(await cluster.backend.client.violations()).toEqual([]);
});
