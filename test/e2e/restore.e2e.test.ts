/**
 * A backup that a controller wrote by itself is put into a Redis that was emptied, while claims go on that it does not know and others are
 * over that it has for running. No mount is touched, no volume gets a second writer, and everything else goes on.
 */
import { copyFile, mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { changingCalls } from "../harness/calls.ts";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  reasonOf,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

test.skipIf(!root)(
  "[I1] [I2] [I8] a backup goes into an emptied Redis: mounts stay, what it does not know bars its volume, the rest goes on",
  { timeout: 120_000 },
  async () => {
    const redis = await startRedisServer();
    onTestFinished(() => redis.stop());
    const dir = await mkdtemp(path.join(tmpdir(), "hf-"));
    const backups = path.join(dir, "backups");
    await mkdir(backups, { mode: 0o700 });
    const controllerEnv = { HOLDFAST_BACKUP: backups, HOLDFAST_BACKUP_INTERVAL: "500ms", HOLDFAST_BACKUP_KEEP: "3" };
    const cluster = await startCluster({
      dir,
      nodes: ["node-a", "node-b"],
      realMounts: true,
      store: redis.url,
      controllerEnv,
    });
    onTestFinished(() => cluster.stop());
    const nameOf = new Map<string, string>();
    for (const id of ["kept", "left", "moved", "again", "later", "free"])
      nameOf.set((await makeVolume(cluster, id)).externalId, id);
    const calls = () => changingCalls(cluster, nameOf);
    const kept = await claimVolume(cluster, "kept");
    await claimVolume(cluster, "left", { node: "node-b" });
    await claimVolume(cluster, "moved");
    await claimVolume(cluster, "again");

    const written = async (): Promise<readonly string[]> =>
      (await readdir(backups)).filter((name) => name.endsWith(".export")).sort();
    const seen = new Set(await written());
    const file = path.join(dir, "kept.export");
    await until("a backup that was begun after the last claim", async () => {
      const fresh = (await written()).filter((name) => !seen.has(name));
      // The first of them may have been under way.
      if (fresh.length < 2) return undefined;
      await copyFile(path.join(backups, fresh.at(-1) ?? ""), file);
      return true;
    });
    expect((await written()).length).toBeLessThanOrEqual(4);

    for (const workload of ["w-left", "w-moved", "w-again"]) await releaseWorkload(cluster, workload);
    const foreign = [
      await claimVolume(cluster, "moved", { node: "node-b", workload: "late-moved" }),
      await claimVolume(cluster, "again", { node: "node-a", workload: "late-again" }),
      await claimVolume(cluster, "later", { node: "node-b", workload: "late-later" }),
    ];
    expect(foreign.map(stateName)).toEqual(["ACTIVE", "ACTIVE", "ACTIVE"]);
    const mounts = await mountsUnder(dir);
    await cluster.backend.client.clear();

    // Total loss, in the middle of everything.
    await (await redis.admin()).call("FLUSHALL");
    expect(await reasonOf(claimVolume(cluster, "free"))).toMatch(/^(STORE_UNAVAILABLE|VOLUME_NOT_FOUND)$/);
    await until("the gate to be shut", async () => !(await cluster.repair.vet({})).open);
    const left = await written();
    await cluster.controller().kill("SIGTERM");
    expect(await written()).toEqual(left);

    const env = { HOLDFAST_STORE: redis.url, HOLDFAST_STATE_DIR: path.join(dir, "controller") };
    const bad = path.join(dir, "bad.export");
    await writeFile(bad, (await readFile(file, "utf8")).replace('"w-kept', '"w-kapt').replace("w-kept", "w-kapt"));
    const refused = await cliRun(["import", bad], { env });
    expect(refused.code).not.toBe(0);
    expect(refused.err).toContain(`${bad} is no whole export`);
    const imported = await cliRun(["import", file], { env });
    expect(imported.code, imported.err).toBe(0);
    expect(imported.out).toContain("its checksum holds");
    await cluster.startController();
    const { gen } = await until("the store to grant by itself", async () => {
      const vetted = await cluster.repair.vet({});
      return vetted.open ? vetted : undefined;
    });
    // The import raises it above that of the backup, and the vetting once more.
    expect(gen).toBe(3n);
    const { stuck } = await cluster.repair.listStuck({ pageSize: 20 });
    const holds = stuck
      .filter(({ state }) => state === "FOREIGN")
      .map(({ volume, node, claimUid }) => [volume, node, claimUid]);
    expect(holds.sort()).toEqual(foreign.map((c) => [c.volume, c.node, c.uid]).sort());
    for (const volume of ["moved", "again", "later"])
      for (const node of ["node-a", "node-b"])
        expect(await reasonOf(claimVolume(cluster, volume, { node, workload: `second-${node}` }))).toMatch(
          /^(FOREIGN_HOLD|CLAIM_CONFLICT)$/,
        );
    expect(await mountsUnder(dir)).toEqual(mounts);
    expect(await calls()).toEqual([]);

    // What was not in doubt goes on at once.
    const granted = await persistently("a grant", () => claimVolume(cluster, "free"));
    expect([stateName(granted), granted.epoch]).toEqual(["ACTIVE", { gen: 3n, ctr: 1n }]);
    expect(await calls()).toEqual([
      "ControllerPublishVolume free node-a",
      "NodePublishVolume free node-a",
      "NodeStageVolume free node-a",
    ]);
    expect((await releaseWorkload(cluster, "w-free")).map(stateName)).toEqual(["RELEASED"]);

    await until("the agent to refuse the permit of a claim that is over", async () => {
      const answer = await cluster.repair.listStuck({ pageSize: 20 });
      return answer.stuck.some(({ volume, blocked }) => volume === "left" && blocked?.reason === "PERMIT_REFUSED");
    });
    // Claims that the backup has for running and that are over: nothing is unmounted, the backend is asked once more.
    await cluster.backend.client.clear();
    for (const workload of ["w-left", "w-moved"])
      expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    expect(await calls()).toEqual(["ControllerUnpublishVolume left node-b", "ControllerUnpublishVolume moved node-a"]);
    // This one is mounted there, by a claim that the store does not know: its pair is not detached.
    await cluster.claims.releaseClaims({ namespace, workload: "w-again" });
    await until("the release to wait for that hold", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "again" } });
      return claims.some((claim) => stateName(claim) === "DETACHING");
    });
    expect(await mountsUnder(dir)).toEqual(mounts);

    // A person ends the claims that only agents know.
    for (const { volume, workload, uid } of foreign) {
      const abandon = { namespace, volume, workload, claimUid: uid, evidence: "stopped", reason: "test" };
      const { outcome } = await cluster.repair.abandonClaim({ ...abandon, dryRun: true });
      await cluster.repair.abandonClaim({ ...abandon, confirm: outcome?.confirmWith ?? "" });
    }
    await until(
      "nothing to be stuck",
      async () => (await cluster.repair.listStuck({ pageSize: 9 })).stuck.length === 0,
      60_000,
    );
    await until("the pair to be detached", async () =>
      (await calls()).includes("ControllerUnpublishVolume again node-a"),
    );
    expect((await calls()).filter((call) => call.startsWith("Node"))).toEqual(
      foreign
        .flatMap(({ volume, node }) => [`NodeUnpublishVolume ${volume} ${node}`, `NodeUnstageVolume ${volume} ${node}`])
        .sort(),
    );
    // Their attachments were in no record, and are detached all the same.
    const attached = async (): Promise<readonly string[]> => {
      const { attachments } = await cluster.backend.client.state();
      return [...attachments].flatMap(([id, uses]) => uses.map(({ node }) => `${nameOf.get(id)} ${node}`)).sort();
    };
    await until("their detaches", async () => (await attached()).length === 1);
    expect(await attached()).toEqual(["kept node-a"]);
    for (const volume of ["later", "moved"]) {
      expect(stateName(await claimVolume(cluster, volume, { node: "node-b", workload: "next" }))).toBe("ACTIVE");
      expect((await releaseWorkload(cluster, "next")).map(stateName)).toEqual(["RELEASED"]);
    }

    expect((await claimVolume(cluster, "kept")).uid).toBe(kept.uid);
    await cluster.backend.client.clear();
    expect((await releaseWorkload(cluster, "w-kept")).map(stateName)).toEqual(["RELEASED"]);
    expect(await calls()).toEqual([
      "ControllerUnpublishVolume kept node-a",
      "NodeUnpublishVolume kept node-a",
      "NodeUnstageVolume kept node-a",
    ]);
    for (const id of nameOf.values()) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);
