/**
 * Blocks that an agent makes, provoked on a real host: the command that each prints is run in a shell as it is printed, or what its words
 * ask for is done, and it is gone. MOUNT_HELD: lingering.e2e.test.ts; MOUNT_HUNG and MOUNT_DEAD: ../node/dead-filesystem.test.ts.
 */
import { spawnSync } from "node:child_process";
import { chmod, cp, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Fault } from "@holdfast/sim-plugin/backend/faults";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { admitWaiting } from "../harness/admit-waiting.ts";
import { runAsTold } from "../harness/as-told.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("the cure of a block of an agent", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
      agentEnv: { HOLDFAST_MOUNT_CHECK_INTERVAL: "1s" },
    });
  });
  afterAll(() => cluster?.stop());

  /** Of each volume its own, so that cases may run beside each other. */
  const faults = new Map<string, Fault>();
  const plant = async (id: string, fault?: Omit<Fault, "match" | "times">): Promise<void> => {
    const { volume } = await cluster.volumes.getVolume({ namespace, id });
    if (fault === undefined) faults.delete(id);
    else faults.set(id, { ...fault, match: { volume: volume?.externalId ?? "" }, times: "always" });
    await cluster.backend.client.setFaults([...faults.values()]);
  };
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
  const nodeNow = async () => (await cluster.nodes.getNode({ name: "node-a" })).node;
  const ask = (id: string) =>
    cluster.claims.createClaims({ namespace, workload: `w-${id}`, node: "node-a", claims: [{ volume: id }] });
  const release = (id: string) => cluster.claims.releaseClaims({ namespace, workload: `w-${id}` });
  const isOver = (id: string) =>
    until(`the claim of ${id} to be over`, async () => (await claimNow(id)) === undefined, 60_000);
  /** The command behind the last colon, as a person copies it. */
  const commandIn = (cure: string, name: string): string => new RegExp(`${name} [^;]+`).exec(cure)?.[0] ?? "";
  const ended = async (id: string): Promise<void> => {
    await plant(id);
    await removeVolume(cluster, id);
  };

  /** The first command of the command line in the cure, run as it is printed. */
  const holdfast = async (cure: string): Promise<void> => {
    const line = /holdfast [^,;]+/.exec(cure)?.[0].trim() ?? "";
    expect(await runAsTold(cluster, line)).toContain(" → 0 ");
  };

  // Each waits for pauses of its own: together they take as long as the longest.
  describe.concurrent("of one volume", () => {
    it("STILL_MOUNTED: something is mounted below the publication", async () => {
      await makeVolume(cluster, "below");
      const { hostPath } = await claimVolume(cluster, "below");
      shell(`mkdir ${hostPath}/below && mount -t tmpfs none ${hostPath}/below`);
      await plant("below", { method: "NodeUnpublishVolume", lie: true });
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
      await plant("unseen", { method: "NodePublishVolume", lie: true });
      await ask("unseen");
      const { clearWith } = await blockOf("unseen", "MOUNT_NOT_SEEN");
      expect(clearWith).toContain("bidirectional mount propagation");
      await plant("unseen");
      expect(stateName(await claimVolume(cluster, "unseen"))).toBe("ACTIVE");
      expect((await claimNow("unseen"))?.blocked).toBeUndefined();
      await releaseWorkload(cluster, "w-unseen");
      await ended("unseen");
    });

    it("NOT_AT_BACKEND: the plugin on the node does not know the volume", async () => {
      await makeVolume(cluster, "unknown");
      await plant("unknown", { method: "NodeStageVolume", code: "NOT_FOUND" });
      await ask("unknown");
      const { clearWith } = await blockOf("unknown", "NOT_AT_BACKEND");
      await holdfast(clearWith);
      await isOver("unknown");
      await ask("unknown");
      await blockOf("unknown", "NOT_AT_BACKEND");
      await plant("unknown");
      expect(stateName(await claimVolume(cluster, "unknown"))).toBe("ACTIVE");
      await releaseWorkload(cluster, "w-unknown");
      await ended("unknown");
    });

    it.each([
      ["INCOMPATIBLE", "ALREADY_EXISTS"],
      ["PLUGIN_REFUSED", "FAILED_PRECONDITION"],
    ] as const)("%s: the plugin answers %s until what its message names is corrected", async (reason, code) => {
      const id = `refused-${code.toLowerCase().replace("_", "-")}`;
      await makeVolume(cluster, id);
      await plant(id, { method: "NodePublishVolume", code });
      await ask(id);
      expect((await blockOf(id, reason)).clearWith).toContain("what the plugin's message names");
      await plant(id);
      expect(stateName(await claimVolume(cluster, id))).toBe("ACTIVE");
      await releaseWorkload(cluster, `w-${id}`);
      await ended(id);
    });

    it("CREDENTIALS_REFUSED: the backend takes no undo from the plugin of the node", async () => {
      await makeVolume(cluster, "locked");
      await claimVolume(cluster, "locked");
      await plant("locked", { method: "NodeUnstageVolume", code: "UNAUTHENTICATED" });
      await release("locked");
      const { clearWith } = await blockOf("locked", "CREDENTIALS_REFUSED");
      expect(clearWith).toMatch(/^give plugin \S+ on this node credentials/);
      await plant("locked");
      await isOver("locked");
      await ended("locked");
    });

    it("MOUNT_MISSING: somebody unmounts what a workload uses, and it is made again by itself", async () => {
      await makeVolume(cluster, "missing");
      const { hostPath } = await claimVolume(cluster, "missing");
      await plant("missing", { method: "NodePublishVolume", code: "UNAVAILABLE" });
      shell(`umount ${hostPath}`);
      await until("it to be degraded", async () => (await claimNow("missing"))?.degradedReason === "MOUNT_MISSING");
      expect((await claimNow("missing"))?.blocked).toBeUndefined();
      await plant("missing");
      await until("it to be well", async () => (await claimNow("missing"))?.degradedSince === undefined, 60_000);
      await releaseWorkload(cluster, "w-missing");
      await ended("missing");
    });
  });

  it("leaves nothing when it is walked", () => expectClean(cluster));

  it("PERMIT_CHANGED: the permit of a claim that is held comes again with another context", async () => {
    await makeVolume(cluster, "changed");
    const { hostPath } = await claimVolume(cluster, "changed");
    await cluster.controller().kill("SIGKILL");
    const store = new DatabaseSync(path.join(cluster.dir, "store.db"));
    const of = `kind = 'volume' AND key = '${namespace}/changed'`;
    const { body } = store.prepare(`SELECT body FROM records WHERE ${of}`).get() as { body: string };
    const other = body.replace(/"publishContext":\{/, '"publishContext":{"edited":"1",').replace('"1",}', '"1"}');
    expect(other).not.toBe(body);
    store.prepare(`UPDATE records SET body = ? WHERE ${of}`).run(other);
    store.close();
    await cluster.startController();
    shell(`umount ${hostPath}`);
    const { clearWith } = await blockOf("changed", "PERMIT_CHANGED");
    await holdfast(clearWith);
    await isOver("changed");
    expect(stateName(await claimVolume(cluster, "changed"))).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-changed");
    await ended("changed");
    await expectClean(cluster);
  });

  /** Answers what is printed, and where the state directory is kept as it was before. */
  const damagedJournal = async (id: string) => {
    const node = cluster.node("node-a");
    await makeVolume(cluster, id);
    await claimVolume(cluster, id);
    await node.agent().kill("SIGKILL");
    const saved = `${node.stateDir}.saved`;
    await cp(node.stateDir, saved, { recursive: true });
    const journal = path.join(node.stateDir, "journal");
    await writeFile(journal, (await readFile(journal, "utf8")).replace('"type":"staged"', '"type":"stagex"'));
    await node.startAgent();
    await release(id);
    const { clearWith } = await blockOf(id, "JOURNAL_DAMAGED");
    await node.agent().kill("SIGTERM");
    await rm(node.stateDir, { recursive: true });
    return { node, saved, clearWith };
  };

  it("JOURNAL_DAMAGED: the state directory is restored", async () => {
    const { node, saved, clearWith } = await damagedJournal("damaged");
    expect(clearWith).toContain("restore its state directory");
    await rename(saved, node.stateDir);
    await Promise.all([node.startAgent(), admitWaiting(cluster, "node-a")]);
    await isOver("damaged");
    await ended("damaged");
    await expectClean(cluster);
  });

  // Two more lives of an agent and a fence: with all of it.
  it.runIf(full)("JOURNAL_DAMAGED: the machine is switched off, and its node fenced", async () => {
    const { node, saved, clearWith } = await damagedJournal("lost");
    await rm(saved, { recursive: true });
    for (const line of (await mountsUnder(node.rootDir)).toReversed()) shell(`umount --lazy ${line.split(" ")[4]}`);
    await node.plugin().kill("SIGKILL");
    await cluster.backend.client.fence("node-a");
    await until("the node to be silent", async () => (await nodeNow())?.state === NodeState.NODE_STATE_SUSPECT);
    const line = /holdfast node fence [^,;]+/.exec(clearWith)?.[0] ?? "";
    const seen = ["--powered-off", "the PDU shows 0 W", "--reason", "test"];
    const fenced = await cliRun([...line.split(" ").slice(1), ...seen], { address: cluster.address });
    expect(fenced.code, `${line}: ${fenced.err}`).toBe(0);
    await isOver("lost");
    await cluster.backend.client.reboot("node-a");
    await node.startPlugin();
    await node.startAgent();
    await until("the node to be ready", async () => (await nodeNow())?.state === NodeState.NODE_STATE_READY);
    await ended("lost");
    await expectClean(cluster);
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
    await expectClean(cluster);
  });
});
