/**
 * Blocks that an agent makes, provoked on a real host: the command that each prints is run in a shell as it is printed, or what its words
 * ask for is done, and it is gone. MOUNT_HELD: lingering.e2e.test.ts; MOUNT_HUNG: ../node/dead-filesystem.test.ts.
 */
import { spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("the cure of a block of an agent", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster?.stop());

  const shell = (line: string): void => {
    const { status, stderr } = spawnSync("sh", ["-c", line], { encoding: "utf8" });
    expect(status, `${line}: ${stderr}`).toBe(0);
  };
  const claimNow = async (id: string) =>
    (await cluster.claims.listClaims({ filter: { namespace, volume: id } })).claims[0];
  const blockOf = async (id: string, reason: string) => {
    const blocked = await until(`${id} to be blocked with ${reason}`, async () => {
      const found = (await claimNow(id))?.blocked;
      return found?.reason === reason ? found : undefined;
    });
    const { out } = await cliRun(["volume", "explain", id, "--namespace", namespace], { address: cluster.address });
    expect(out).toContain(`is blocked (${reason})`);
    expect(out).toContain(blocked.clearWith);
    return blocked;
  };
  const ask = (id: string) =>
    cluster.claims.createClaims({ namespace, workload: `w-${id}`, node: "node-a", claims: [{ volume: id }] });
  const release = (id: string) => cluster.claims.releaseClaims({ namespace, workload: `w-${id}` });
  const isOver = (id: string) =>
    until(`the claim of ${id} to be over`, async () => (await claimNow(id)) === undefined, 60_000);
  /** The command behind the last colon, as a person copies it. */
  const commandIn = (cure: string, name: string): string => new RegExp(`${name} [^;]+`).exec(cure)?.[0] ?? "";
  const ended = async (id: string): Promise<void> => {
    await cluster.backend.client.setFaults([]);
    await removeVolume(cluster, id);
    await expectClean(cluster);
  };

  it("STILL_MOUNTED: something is mounted below the publication", async () => {
    await makeVolume(cluster, "below");
    const { hostPath } = await claimVolume(cluster, "below");
    shell(`mkdir ${hostPath}/below && mount -t tmpfs none ${hostPath}/below`);
    await cluster.backend.client.setFaults([{ method: "NodeUnpublishVolume", lie: true, times: "always" }]);
    await release("below");
    const { clearWith } = await blockOf("below", "STILL_MOUNTED");
    expect(clearWith).toBe(`umount ${hostPath}/below`);
    shell(clearWith);
    await isOver("below");
    await ended("below");
  });

  it("ORPHAN_MOUNT: a mount beside the publications that no claim explains", async () => {
    await makeVolume(cluster, "beside");
    const { hostPath } = await claimVolume(cluster, "beside");
    const stray = path.join(path.dirname(hostPath), "stray");
    shell(`mkdir ${stray} && mount -t tmpfs none ${stray}`);
    await release("beside");
    const { clearWith } = await blockOf("beside", "ORPHAN_MOUNT");
    const scan = await cliRun(["repair", "scan", "--kind", "mount"], { address: cluster.address });
    expect(clearWith).toContain("holdfast repair scan --kind mount");
    expect(scan.out).toContain(stray);
    shell(commandIn(clearWith, "umount"));
    shell(`rmdir ${stray}`);
    await isOver("beside");
    await ended("beside");
  });

  it("MOUNT_NOT_SEEN: the plugin mounts where the host does not see it", async () => {
    await makeVolume(cluster, "unseen");
    await cluster.backend.client.setFaults([{ method: "NodePublishVolume", lie: true, times: "always" }]);
    await ask("unseen");
    const { clearWith } = await blockOf("unseen", "MOUNT_NOT_SEEN");
    expect(clearWith).toContain("bidirectional mount propagation");
    await cluster.backend.client.setFaults([]);
    expect(stateName(await claimVolume(cluster, "unseen"))).toBe("ACTIVE");
    expect((await claimNow("unseen"))?.blocked).toBeUndefined();
    await releaseWorkload(cluster, "w-unseen");
    await ended("unseen");
  });

  it("HOST_PATH_UNSAFE: others may write on the way to the mount", async () => {
    await makeVolume(cluster, "open");
    const directory = path.join(cluster.node("node-a").rootDir, "publish");
    await chmod(directory, 0o777);
    await ask("open");
    const { clearWith } = await blockOf("open", "HOST_PATH_UNSAFE");
    expect(clearWith).toBe(`chmod go-w ${directory}`);
    shell(clearWith);
    expect(stateName(await claimVolume(cluster, "open"))).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-open");
    await ended("open");
  });
});
