/** D2 and D3 of what real drivers showed: a mount that its plugin leaves, and one that a process uses, over real processes. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { EventSeverity } from "@holdfast/shared/gen/holdfast/v1/event";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  plugin,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("a mount that stays after its unpublish", () => {
  let cluster: Cluster;
  const processes: ChildProcess[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(async () => {
    for (const one of processes) one.kill("SIGKILL");
    await cluster?.stop();
  });

  const release = (id: string) => cluster.claims.releaseClaims({ namespace, workload: `w-${id}` });
  const over = (id: string) =>
    until(`the claim of ${id} to be over`, async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: id } });
      return claims.length === 0;
    });
  const watch = (id: string, resumeToken = "") =>
    cluster.events.watchEvents(
      { filter: { namespace, volume: id }, resumeToken },
      { signal: AbortSignal.timeout(60_000) },
    );
  const position = async (id: string): Promise<string> => {
    for await (const { resumeToken } of watch(id)) return resumeToken;
    return "";
  };
  const eventOf = async (id: string, resumeToken: string, reason: string) => {
    for await (const { event } of watch(id, resumeToken)) if (event?.reason === reason) return event;
    return undefined;
  };

  it("D2: nobody uses it, and the plugin answers OK twice: the agent unmounts it, and an event says so", async () => {
    const start = await position("left");
    await makeVolume(cluster, "left");
    const claim = await claimVolume(cluster, "left");
    await cluster.backend.client.setFaults([{ method: "NodeUnpublishVolume", lie: true, times: "always" }]);
    await release("left");
    await over("left");
    expect(await eventOf("left", start, "CLAIM_UNMOUNTED")).toMatchObject({
      severity: EventSeverity.EVENT_SEVERITY_WARNING,
      message: expect.stringContaining(`the agent unmounted ${claim.hostPath}`),
    });
    expect(cluster.node("node-a").agent().output()).toContain("the agent unmounted what its plugin had left mounted");
    await cluster.backend.client.setFaults([]);
    await removeVolume(cluster, "left");
    await expectClean(cluster);
  });

  it("D3: a process uses it, and the plugin answers UNKNOWN: it is named, and the printed command clears it", async () => {
    await makeVolume(cluster, "busy");
    const { hostPath } = await claimVolume(cluster, "busy");
    const holder = spawn("sleep", ["600"], { cwd: hostPath, stdio: "ignore" });
    processes.push(holder);
    const busy = { code: "UNKNOWN", message: "unmount failed: target is busy" } as const;
    await cluster.backend.client.setFaults([{ method: "NodeUnpublishVolume", ...busy, times: "always" }]);
    await release("busy");
    const blocked = await until("the holder to be named", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "busy" } });
      return claims[0]?.blocked;
    });
    expect(blocked).toMatchObject({
      reason: "MOUNT_HELD",
      message: expect.stringContaining(`process ${holder.pid} (sleep) uses ${hostPath}`),
    });
    expect(blocked.message).toContain("NodeUnpublishVolume answered UNKNOWN: unmount failed: target is busy");
    const { out } = await cliRun(["volume", "explain", "busy", "--namespace", namespace], { address: cluster.address });
    expect(out).toContain(blocked.clearWith);
    expect((await cliRun(["repair", "stuck", "--namespace", namespace], { address: cluster.address })).out).toContain(
      "MOUNT_HELD",
    );
    const explained = await cluster.volumes.explainVolume({ namespace, id: "busy" });
    expect(explained.claims[0]?.lastError).toMatchObject({
      csiMethod: "NodeUnpublishVolume",
      csiCode: "UNKNOWN",
      plugin,
      node: "node-a",
      attempt: expect.toSatisfy((attempt: number) => attempt >= 2),
      at: expect.any(Date),
    });
    const command = /kill \d+/.exec(blocked.clearWith)?.[0] ?? "";
    expect(spawnSync("sh", ["-c", command]).status).toBe(0);
    // A driver answers as its kernel does: nobody uses it any more.
    await cluster.backend.client.setFaults([]);
    await over("busy");
    await removeVolume(cluster, "busy");
    await expectClean(cluster);
  });

  it("D11: the last error names the call, its code, plugin, node and attempt, also once the claim has FAILED", async () => {
    await makeVolume(cluster, "sore");
    const attach = { method: "ControllerPublishVolume", code: "INTERNAL", message: "array is busy", times: 2 } as const;
    const mount = { method: "NodePublishVolume", code: "INVALID_ARGUMENT", message: "bad flag" } as const;
    await cluster.backend.client.setFaults([attach, mount]);
    await cluster.claims.createClaims({ namespace, workload: "w-sore", node: "node-a", claims: [{ volume: "sore" }] });
    const claimNow = async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload: "w-sore" } });
      return claims[0]?.lastError;
    };
    expect(await until("the attach to fail", claimNow)).toMatchObject({
      ...{ csiMethod: "ControllerPublishVolume", csiCode: "INTERNAL", message: "array is busy" },
      ...{ plugin, node: "node-a", at: expect.any(Date) },
    });
    const { claims } = await cluster.claims.createClaims({
      ...{ namespace, workload: "w-sore", node: "node-a", claims: [{ volume: "sore" }] },
      waitFor: { seconds: 30n, nanos: 0 },
    });
    expect(claims[0] && stateName(claims[0])).toBe("FAILED");
    expect(claims[0]?.lastError).toMatchObject({
      ...{ csiMethod: "NodePublishVolume", csiCode: "INVALID_ARGUMENT", plugin, node: "node-a", attempt: 1 },
    });
    await over("sore");
    await removeVolume(cluster, "sore");
    await expectClean(cluster);
  });
});
