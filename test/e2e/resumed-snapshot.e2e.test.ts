/**
 * The snapshot of a machine is resumed, on the same boot: its agent's journal is the one of back then, and so are its mounts. What was let
 * go of since is let go of again, what was granted since is mounted again, and who has a volume elsewhere by now is not disturbed; nobody is asked.
 */
import { spawnSync } from "node:child_process";
import { cp, mkdir, readdir, rm } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { expect, onTestFinished, test } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const volumes = ["kept", "moved", "again", "gone", "later"];
const pointsUnder = async (dir: string): Promise<readonly string[]> =>
  (await mountsUnder(dir)).map((line) => line.split(" ")[4] ?? "").sort();

test.skipIf(!root)(
  "[I2] [I3] [I5] [I6] a machine that goes on from its snapshot comes to what the records say by itself",
  { timeout: 90_000 },
  async () => {
    const cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
    onTestFinished(() => cluster.stop());
    const node = cluster.node("node-a");
    const active = async (id: string, workload: string, on = "node-a"): Promise<Claim> => {
      const claim = await persistently(workload, () => claimVolume(cluster, id, { node: on, workload }));
      expect(stateName(claim)).toBe("ACTIVE");
      return claim;
    };
    for (const id of volumes) await makeVolume(cluster, id);
    for (const id of ["kept", "moved", "again", "gone"]) await active(id, `w-${id}`);
    const mountsThen = await pointsUnder(node.rootDir);
    await node.agent().kill("SIGKILL");
    const snapshot = path.join(cluster.dir, "snapshot");
    await cp(node.stateDir, snapshot, { recursive: true });
    await node.startAgent();

    for (const id of ["moved", "again", "gone"])
      expect((await releaseWorkload(cluster, `w-${id}`)).map(stateName)).toEqual(["RELEASED"]);
    await active("moved", "next-moved", "node-b");
    await active("again", "next-again");
    await active("later", "w-later");
    const claimsNow = async (): Promise<readonly Claim[]> =>
      (await cluster.claims.listClaims({ filter: { namespace, states: [ClaimState.CLAIM_STATE_ACTIVE] } })).claims;
    const told = (claims: readonly Claim[]) =>
      claims
        .map(({ uid, node: on, epoch, degradedSince }) => ({ uid, on, epoch, degradedSince }))
        .sort((a, b) => (a.uid < b.uid ? -1 : 1));
    const before = told(await claimsNow());
    expect(before).toHaveLength(4);
    const elsewhere = await mountsUnder(cluster.node("node-b").rootDir);
    const mountsNow = await pointsUnder(node.rootDir);

    // The directory is the same one, and its contents and the mounts are those of back then.
    await node.agent().kill("SIGKILL");
    for (const name of await readdir(node.stateDir)) await rm(path.join(node.stateDir, name), { recursive: true });
    await cp(snapshot, node.stateDir, { recursive: true });
    for (const at of mountsNow.filter((one) => !mountsThen.includes(one)).toReversed())
      spawnSync("umount", ["--lazy", at]);
    for (const at of mountsThen.filter((one) => !mountsNow.includes(one))) {
      await mkdir(at, { recursive: true });
      spawnSync("mount", ["--bind", snapshot, at]);
    }
    expect(await pointsUnder(node.rootDir)).toEqual(mountsThen);
    // Nor does the plugin know what it did there since.
    await cluster.backend.client.reboot("node-a");
    const { seq: resumedAt = 0 } = (await cluster.backend.client.record()).at(-1) ?? {};
    await node.startAgent();

    await until(
      "the mounts to be those of the records",
      async () => String(await pointsUnder(node.rootDir)) === String(mountsNow),
    );
    await until(
      "its claims to be as they were",
      async () =>
        JSON.stringify(told(await claimsNow()), (_, v) => (typeof v === "bigint" ? String(v) : v)) ===
        JSON.stringify(before, (_, v) => (typeof v === "bigint" ? String(v) : v)),
    );
    const { node: seen } = await cluster.nodes.getNode({ name: "node-a" });
    expect([seen?.pending, seen?.blocked, seen?.schedulable]).toEqual([undefined, undefined, true]);
    expect((await cluster.repair.listStuck({ pageSize: 10 })).stuck).toEqual([]);
    expect(await mountsUnder(cluster.node("node-b").rootDir)).toEqual(elsewhere);
    const since = (await cluster.backend.client.record()).filter(({ seq }) => seq > resumedAt);
    expect(since.filter(({ method }) => /^Controller(Un)?[Pp]ublish/.test(method))).toEqual([]);
    expect(since.filter(({ node: on }) => on === "node-b")).toEqual([]);

    for (const workload of ["w-kept", "next-moved", "next-again", "w-later"])
      expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    for (const id of volumes) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);
