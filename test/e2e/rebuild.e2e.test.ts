/**
 * The store is lost and there is no backup. Its records are made anew from what the agents hold and the backend lists: no mount is touched,
 * no second writer is granted at any time, claims are released as they would have been, and what is not proven is named and barred.
 */
import { readdir } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { changingCalls } from "../harness/calls.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  plugin,
  reasonOf,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full, sample } from "../support/full.ts";
import { startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const nodes = ["node-a", "node-b", "node-c"] as const;
const waiting = { seconds: 45n, nanos: 0 };

const settingsOf = ({ dir, agentAddress }: Cluster, store: string) => ({
  HOLDFAST_STORE: store,
  HOLDFAST_STATE_DIR: path.join(dir, "controller"),
  HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
  HOLDFAST_AGENT_LISTEN: agentAddress,
});
const isOpen = (cluster: Cluster) =>
  until("the store to grant by itself", async () => {
    const vetted = await cluster.repair.vet({});
    return vetted.open ? vetted : undefined;
  });

test.skipIf(!root)(
  "[I1] [I2] [I8] without a backup the records are made anew: claims run on, and what is not proven is barred",
  { timeout: 240_000 },
  async () => {
    const redis = await startRedisServer();
    onTestFinished(() => redis.stop());
    const cluster = await startCluster({ nodes, realMounts: true, store: redis.url });
    onTestFinished(() => cluster.stop());
    const { dir } = cluster;
    const nameOf = new Map<string, string>();
    const calls = () => changingCalls(cluster, nameOf);
    const nodeOf = (nth: number): string => nodes[nth % nodes.length] ?? "";

    const running = Array.from({ length: sample(98, 18) }, (_, nth) => ({ id: `v${nth}`, node: nodeOf(nth) }));
    for (const { id } of running) nameOf.set((await makeVolume(cluster, id)).externalId, id);
    const reader = {
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_READER_ONLY,
    };
    nameOf.set((await makeVolume(cluster, "shared", reader)).externalId, "shared");
    const strange = await makeVolume(cluster, "strange");
    nameOf.set(strange.externalId, "strange");
    const idle = await makeVolume(cluster, "idle");
    nameOf.set(idle.externalId, "idle");
    for (const { id, node } of running) await claimVolume(cluster, id, { node });
    for (const node of ["node-a", "node-b"])
      await claimVolume(cluster, "shared", { node, workload: `read-${node}`, readOnly: true });
    await claimVolume(cluster, "strange", { node: "node-c" });
    await claimVolume(cluster, "idle");
    await releaseWorkload(cluster, "w-idle");
    // A host that nobody has heard of has it too, by the backend's word.
    await cluster.backend.client.attachBehind(strange.externalId, "node-x");

    const claimsNow = async (): Promise<readonly Claim[]> => {
      const { claims } = await cluster.claims.listClaims({
        filter: { states: [ClaimState.CLAIM_STATE_ACTIVE] },
        pageSize: 500,
      });
      return [...claims].sort((a, b) => (a.uid < b.uid ? -1 : 1));
    };
    const told = (claims: readonly Claim[]) =>
      claims.map(({ uid, volume, workload, alias, node, epoch, accessMode, readOnly, hostPath }) => ({
        ...{ uid, volume, workload, alias, node, epoch, accessMode, readOnly, hostPath },
      }));
    const before = told(await claimsNow());
    expect(before).toHaveLength(running.length + 3);
    const mounts = await mountsUnder(dir);
    await cluster.backend.client.clear();

    const lostAt = performance.now();
    await (await redis.admin()).call("FLUSHALL");
    expect(await reasonOf(claimVolume(cluster, "v0", { node: "node-b", workload: "second" }))).toMatch(
      /^(STORE_UNAVAILABLE|VOLUME_NOT_FOUND)$/,
    );
    await cluster.controller().kill("SIGKILL");
    await expect(cluster.startController()).rejects.toThrow();
    expect(cluster.controller().output()).toContain("the store was flushed");

    const env = settingsOf(cluster, redis.url);
    const file = path.join(dir, "rebuilt.export");
    const rebuild = (...args: readonly string[]) => cliRun(["rebuild", ...args], { env });
    // Not every node is named: whatever the others hold would be given away.
    const some = await rebuild("node-a,node-b", file);
    expect([some.code, some.err]).toEqual([1, expect.stringContaining("node-c registered here and is not named")]);
    const dry = await rebuild(nodes.join());
    expect(dry.code, dry.err).toBe(0);
    expect(dry.out).toContain("nothing was written");
    expect((await readdir(dir)).filter((name) => name.endsWith(".export"))).toEqual([]);
    const madeAt = performance.now();
    const made = await rebuild(nodes.join(), file);
    const madeMs = performance.now() - madeAt;
    expect(made.code, made.err).toBe(0);
    const rows = made.out.split("\n").filter((line) => /^(known again|not proven|no record): /.test(line));
    // Each volume has its row: which is known again, and which is not, and why.
    const known = rows.filter((row) => row.startsWith("known again"));
    expect(known.map((row) => /^known again: test\/(\S+?):? /.exec(`${row} `)?.[1]).toSorted()).toEqual(
      [...running.map(({ id }) => id), "shared"].toSorted(),
    );
    expect(rows.filter((row) => row.startsWith("not proven"))).toEqual([
      expect.stringMatching(
        /test\/strange: w-strange on node-c under 1\.1; it is attached to .*node-x.*, a node that was not heard/,
      ),
    ]);
    expect(rows.filter((row) => row.startsWith("no record"))).toEqual([
      expect.stringContaining(`${plugin}/${idle.externalId}: it was test/idle; no agent holds it`),
    ]);
    expect(await mountsUnder(dir)).toEqual(mounts);
    expect(await calls()).toEqual([]);

    const importedAt = performance.now();
    const imported = await cliRun(["import", file], { env });
    expect(imported.code, imported.err).toBe(0);
    const startedAt = performance.now();
    await cluster.startController();
    const { gen } = await isOpen(cluster);
    const openAt = performance.now();
    expect(gen).toBe(3n);
    expect(told(await claimsNow())).toEqual(before);
    expect(await mountsUnder(dir)).toEqual(mounts);
    expect(await calls()).toEqual([]);
    if (full)
      console.log(
        JSON.stringify({
          ...{ volumes: nameOf.size, nodes: nodes.length, claims: before.length, mounts: mounts.length },
          ...{ knownAgain: known.length, notProven: 1, noRecord: 1 },
          rebuildMs: Math.round(madeMs),
          importMs: Math.round(startedAt - importedAt),
          startToGrantingMs: Math.round(openAt - startedAt),
          lossToGrantingMs: Math.round(openAt - lostAt),
        }),
      );

    // No second writer, and nothing of what is not proven.
    for (const { id, node } of running.slice(0, 6)) {
      const other = nodes.find((one) => one !== node) ?? "";
      expect(await reasonOf(claimVolume(cluster, id, { node: other, workload: "second" }))).toBe("CLAIM_CONFLICT");
    }
    const { stuck } = await cluster.repair.listStuck({ pageSize: 20 });
    expect(stuck.map(({ volume, blocked }) => [volume, blocked?.reason])).toEqual([["strange", "NOT_PROVEN"]]);
    expect(await reasonOf(claimVolume(cluster, "strange", { node: "node-a", workload: "second" }))).toBe(
      "VOLUME_NOT_AVAILABLE",
    );
    expect(await reasonOf(claimVolume(cluster, "idle"))).toBe("VOLUME_NOT_FOUND");
    expect(await calls()).toEqual([]);

    // Asked again a claim is the one that runs; released, it goes as it would have gone.
    const [first] = running;
    expect((await claimVolume(cluster, "v0", { node: first?.node ?? "" })).uid).toBe(
      before.find(({ volume }) => volume === "v0")?.uid,
    );
    for (const { id } of running)
      expect((await releaseWorkload(cluster, `w-${id}`)).map(stateName), id).toEqual(["RELEASED"]);
    const gone = (id: string, node: string): readonly string[] => [
      `ControllerUnpublishVolume ${id} ${node}`,
      `NodeUnpublishVolume ${id} ${node}`,
      `NodeUnstageVolume ${id} ${node}`,
    ];
    expect(await calls()).toEqual(running.flatMap(({ id, node }) => gone(id, node)).sort());
    await cluster.backend.client.clear();
    for (const node of ["node-a", "node-b"])
      expect((await releaseWorkload(cluster, `read-${node}`)).map(stateName)).toEqual(["RELEASED"]);
    expect((await releaseWorkload(cluster, "w-strange")).map(stateName)).toEqual(["RELEASED"]);
    expect(await calls()).toEqual(
      [...gone("shared", "node-a"), ...gone("shared", "node-b"), ...gone("strange", "node-c")].sort(),
    );

    // They are used again, on another node and under a higher generation.
    await cluster.backend.client.clear();
    const again = await claimVolume(cluster, "v0", { node: "node-c", workload: "again" });
    expect([stateName(again), again.epoch]).toEqual(["ACTIVE", { gen: 3n, ctr: 2n }]);
    expect(await calls()).toEqual([
      "ControllerPublishVolume v0 node-c",
      "NodePublishVolume v0 node-c",
      "NodeStageVolume v0 node-c",
    ]);
    expect((await releaseWorkload(cluster, "again")).map(stateName)).toEqual(["RELEASED"]);
    // What was not proven gets its record by a person, with what it said.
    await cluster.backend.client.detachBehind(strange.externalId, "node-x");
    await cluster.volumes.deregisterVolume({ namespace, id: "strange" });
    for (const { id, externalId, context } of [strange, idle]) {
      const spec = { namespace, id, plugin, externalId, context, waitFor: waiting };
      const capabilities = [{ ...reader, accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER }];
      await persistently("the registration", () => cluster.volumes.registerVolume({ ...spec, capabilities }));
      expect(stateName(await claimVolume(cluster, id, { workload: "anew" }))).toBe("ACTIVE");
      expect((await releaseWorkload(cluster, "anew")).map(stateName)).toEqual(["RELEASED"]);
    }

    // Nobody has said that the data of rebuilt volumes may go: their records end, and the storage is kept.
    for (const id of nameOf.values()) await removeVolume(cluster, id);
    const { state, violations } = await cluster.backend.client.snapshot();
    expect(violations).toEqual([]);
    expect([state.publications.size, state.stages.size, state.attachments.size]).toEqual([0, 0, 0]);
    expect(state.volumes.size).toBe(nameOf.size);
    expect(await mountsUnder(dir)).toEqual([]);
  },
);

test.skipIf(!root)(
  "[I1] a hold that was half made when the store was lost tells its workload what is in the way, and is used again once it is given up",
  async () => {
    const redis = await startRedisServer();
    onTestFinished(() => redis.stop());
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true, store: redis.url });
    onTestFinished(() => cluster.stop());
    await makeVolume(cluster, "half");
    const { client } = cluster.backend;
    await client.setFaults([{ method: "NodeStageVolume", code: "UNAVAILABLE", times: "always" }]);
    const wanted = { namespace, workload: "web", node: "node-a", claims: [{ volume: "half" }] };
    const [claim = expect.fail()] = (await cluster.claims.createClaims(wanted)).claims;
    await until("the agent to stage it", async () =>
      (await client.record()).some(({ method }) => method === "NodeStageVolume") ? true : undefined,
    );
    await (await redis.admin()).call("FLUSHALL");
    await cluster.controller().kill("SIGKILL");
    await client.setFaults([]);

    const env = settingsOf(cluster, redis.url);
    const file = path.join(cluster.dir, "rebuilt.export");
    const made = await cliRun(["rebuild", "node-a", file], { env });
    expect(made.code, made.err).toBe(0);
    expect(made.out).toMatch(/^not proven: test\/half: .*what was wanted of it is lost/m);
    expect((await cliRun(["import", file], { env })).code).toBe(0);
    await cluster.startController();
    await isOpen(cluster);

    expect(await reasonOf(claimVolume(cluster, "half", { workload: "web" }))).toBe("FOREIGN_HOLD");
    const hold = { namespace, volume: "half", workload: "web", claimUid: claim.uid };
    const abandon = { ...hold, evidence: "web was stopped", reason: "the store was lost" };
    const { outcome } = await cluster.repair.abandonClaim({ ...abandon, dryRun: true });
    await cluster.repair.abandonClaim({ ...abandon, confirm: outcome?.confirmWith ?? "" });
    const again = await persistently("the claim", () => claimVolume(cluster, "half", { workload: "web" }));
    expect([stateName(again), again.uid === claim.uid]).toEqual(["ACTIVE", false]);
  },
);
