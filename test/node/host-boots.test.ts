/**
 * The host boots: every mount and every loop device is gone, the kernel has another boot id, and the disk is as it was. What
 * was claimed is mounted again under the same epoch, with its data, once a person has said that this boot is the node; what was
 * released meanwhile is not.
 */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { admitWaiting } from "../harness/admit-waiting.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { detachLoopsUnder, loopsUnder } from "../harness/loop-files.ts";
import { type MountNamespace, startMountNamespace } from "../harness/mount-namespace.ts";
import {
  claimVolume,
  fileWriter,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");

describe.skipIf(!root)("a host that boots", () => {
  let space: MountNamespace;
  let cluster: Cluster;

  beforeAll(async () => {
    space = await startMountNamespace();
    const controllerEnv = { HOLDFAST_LINK_GRACE: "1s" };
    cluster = await startCluster({ nodes: ["node-a"], localDriver: {}, mountsOf: () => space.pid, controllerEnv });
  });
  afterAll(async () => {
    await cluster?.stop();
    await space?.end();
  });

  const made = async (id: string): Promise<Claim> => {
    const parameters = { type: "image", fsType: "ext4" };
    await makeVolume(cluster, id, fileWriter, { plugin: "local.holdfast.dev", bytes: 32n << 20n, parameters });
    const claim = await claimVolume(cluster, id);
    expect(stateName(claim)).toBe("ACTIVE");
    await writeFile(space.inside(path.join(claim.hostPath, "data")), `of ${id}`);
    return claim;
  };

  const claimNow = async (uid: string): Promise<Claim | undefined> =>
    (await cluster.claims.listClaims({ filter: { namespace } })).claims.find((claim) => claim.uid === uid);

  const powerCut = async (): Promise<void> => {
    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.driver().kill("SIGKILL");
    // With its last process the namespace goes, and with it all that was mounted there.
    await space.end();
    await until("the loop devices to be free", async () => {
      await detachLoopsUnder(cluster.dir);
      return (await loopsUnder(cluster.dir)).length === 0;
    });
  };

  const boot = async (): Promise<Record<string, unknown>> => {
    const bootId = path.join(cluster.dir, "boot-id");
    await writeFile(bootId, "11111111-2222-3333-4444-555555555555\n");
    space = await startMountNamespace({ over: { "/proc/sys/kernel/random/boot_id": bootId } });
    await cluster.startDriver();
    const [agent] = await Promise.all([cluster.node("node-a").startAgent(), admitWaiting(cluster, "node-a")]);
    return agent.line((line) => line["message"] === "the journal was read", "what it found");
  };

  test("[I3] [I6] the claim is mounted again under its epoch, with its data; one that was released is over", async () => {
    const [kept, left] = [await made("kept"), await made("left")];
    await powerCut();
    // Asked for while nobody is there to do it.
    await cluster.claims.releaseClaims({ namespace, workload: "w-left" });
    expect(await boot()).toMatchObject({ held: 2, missing: 2, rebooted: true, orphans: [] });

    await until("the mount to be there again", async () => (await space.lines(` ${kept.hostPath} `)).length === 1);
    const after = await until("the claim to be as it was", async () => {
      const claim = await claimNow(kept.uid);
      return claim?.state === ClaimState.CLAIM_STATE_ACTIVE && claim.degradedSince === undefined ? claim : undefined;
    });
    expect(after).toMatchObject({ epoch: kept.epoch, hostPath: kept.hostPath });
    expect(await readFile(space.inside(path.join(kept.hostPath, "data")), "utf8")).toBe("of kept");
    await until("the other one to be over", async () => {
      const claim = await claimNow(left.uid);
      return claim === undefined || claim.state === ClaimState.CLAIM_STATE_RELEASED;
    });
    expect(await space.lines(left.hostPath)).toEqual([]);

    const over = await persistently("the release", () => releaseWorkload(cluster, "w-kept"));
    expect(over.map(stateName)).toEqual(["RELEASED"]);
    for (const id of ["kept", "left"]) await persistently("the deletion", () => removeVolume(cluster, id));
    expect([...(await space.lines(` ${cluster.dir}/node-a/`)), ...(await loopsUnder(cluster.dir))]).toEqual([]);
  });
});
