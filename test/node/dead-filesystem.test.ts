/**
 * A file system that is served by a process: stopped, everybody who looks into it waits for ever; killed, everybody gets an
 * error, and it stays mounted. Neither is any business of the other volumes of the agent, nor keeps its own from being
 * released in the end.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import {
  claimVolume,
  fileWriter,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full, sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const plugin = "fuse.holdfast.dev";
const daemonMain = path.resolve(import.meta.dirname, "../harness/fuse-daemon.ts");
/** Lives of claims of other volumes that are measured at a time. */
const lives = sample(50, 8);
const rounds = sample(5, 1);

describe.skipIf(!root)("a volume whose file system hangs or died", () => {
  let cluster: Cluster;
  let dataDir: string;
  const ends: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    const dir = path.join(cluster.dir, "f");
    dataDir = path.join(dir, "data");
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    // A plugin of its own: what hangs in it may hang all of it.
    const backend = await startSimBackend({ dir, name: plugin });
    ends.push(() => backend.stop());
    const common = { dir, backend: backend.socketPath };
    const controller = { ...common, role: "controller" as const, socket: path.join(cluster.dir, "cp", "fuse.sock") };
    const node = { ...common, role: "node" as const, socket: path.join(cluster.dir, "node-a-p", "fuse.sock") };
    const started = [
      await startSimPlugin(controller),
      await startSimPlugin({ ...node, node: "node-a", dataDir, realMounts: true }),
    ];
    ends.push(...started.map((one) => () => one.stop()));
    await makeVolume(cluster, "other");
  });
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
    await cluster?.stop();
  });

  const startDaemon = async (place: string): Promise<ManagedProcess> => {
    const daemon = startProcess({ name: "file system", command: [process.execPath, daemonMain, place] });
    ends.push(() => daemon.kill("SIGKILL"));
    onTestFinished(async () => void (await daemon.kill("SIGKILL")));
    await daemon.line((line) => line["message"] === "ready", "its line `ready`");
    return daemon;
  };

  /** A volume that such a process serves, and where. */
  const made = async (id: string): Promise<{ readonly place: string; readonly daemon: ManagedProcess }> => {
    const volume = await persistently("the volume", () => makeVolume(cluster, id, fileWriter, { plugin }));
    // Where the plugin keeps the data of the volume, which it binds over the paths that it is told.
    const name = createHash("sha256").update(volume.externalId).digest("hex").slice(0, 32);
    const place = path.join(dataDir, name);
    await mkdir(place);
    return { place, daemon: await startDaemon(place) };
  };

  const served = async (id: string): Promise<{ readonly claim: Claim; readonly daemon: ManagedProcess }> => {
    const { daemon } = await made(id);
    const claim = await persistently("the claim", () => claimVolume(cluster, id));
    expect(stateName(claim)).toBe("ACTIVE");
    const [line = ""] = await mountsUnder(path.dirname(claim.hostPath));
    expect(line).toContain(" - fuse ");
    return { claim, daemon };
  };

  const oneLife = async (workload: string): Promise<number> => {
    const start = performance.now();
    expect(stateName(await claimVolume(cluster, "other", { workload }))).toBe("ACTIVE");
    expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    return performance.now() - start;
  };

  let workloads = 0;
  /** Lives of claims of the other volume, in milliseconds, sorted. */
  const measured = async (): Promise<readonly number[]> => {
    const times: number[] = [];
    for (let life = 0; life < lives; life += 1) {
      workloads += 1;
      times.push(await oneLife(`w-other-${workloads}`));
    }
    return times.sort((a, b) => a - b);
  };
  const p99 = (sorted: readonly number[]): number => sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;

  const metrics = async (): Promise<string> => {
    const { address } = await cluster
      .node("node-a")
      .agent()
      .line((it) => it["message"] === "admin listening", "its port");
    return (await fetch(`http://${String(address)}/metrics`, { signal: AbortSignal.timeout(5_000) })).text();
  };
  /** The longest time that the agent's event loop was away since the last question, beyond the pause between two samples. */
  const longestBlock = async (): Promise<number> => {
    const text = await metrics();
    const [most, least] = ["max", "min"].map((which) => {
      const found = new RegExp(`^nodejs_eventloop_lag_${which}_seconds(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(text);
      if (found === null) throw new Error("the agent does not measure its event loop");
      return Number(found[1]) * 1_000;
    });
    return (most ?? 0) - (least ?? 0);
  };

  const ratios: number[] = [];
  const disturbed = async (daemon: ManagedProcess, signal: NodeJS.Signals): Promise<void> => {
    await longestBlock();
    const before = await measured();
    const away = await longestBlock();
    daemon.signal(signal);
    const during = await measured();
    const blocked = await longestBlock();
    ratios.push(p99(during) / p99(before));
    console.log(
      `${signal}: p99 of another volume ${p99(before).toFixed(0)} → ${p99(during).toFixed(0)} ms; event loop away at most ${away.toFixed(0)} → ${blocked.toFixed(0)} ms`,
    );
    // What hangs hangs for ever: of a sample on a busy machine only that much can be said.
    expect(blocked).toBeLessThan(full ? Math.max(100, away * 1.25) : 2_000);
  };

  const ended = async (id: string, claim: Claim): Promise<void> => {
    const over = await persistently("the release", async () => {
      const claims = await releaseWorkload(cluster, `w-${id}`);
      if (claims.some((one) => stateName(one) !== "RELEASED")) throw new Error("not released yet");
      return claims;
    });
    expect(over).toHaveLength(1);
    expect(await mountsUnder(path.dirname(claim.hostPath))).toEqual([]);
    await persistently("the deletion", () => removeVolume(cluster, id));
  };

  const cases = [
    { signal: "SIGSTOP" as const, id: "hung" },
    { signal: "SIGKILL" as const, id: "dead" },
  ];
  test.each(cases)(
    "[I2] [I6] $signal: claims of other volumes go on, the event loop is never held, and the volume is released in the end",
    { timeout: 60_000 + rounds * lives * 4_000 },
    async ({ signal, id }) => {
      ratios.length = 0;
      for (let round = 0; round < rounds; round += 1) {
        const { claim, daemon } = await served(`${id}-${round}`);
        await disturbed(daemon, signal);
        if (signal === "SIGSTOP") {
          // umount(8) looks at the path first, so the plugin hangs as well. It hangs alone.
          await cluster.claims.releaseClaims({ namespace, workload: `w-${id}-${round}` });
          await oneLife(`w-beside-${round}`);
          expect(await mountsUnder(path.dirname(claim.hostPath))).toHaveLength(1);
          daemon.signal("SIGCONT");
        }
        await ended(`${id}-${round}`, claim);
        await daemon.kill("SIGKILL");
      }
      const median = ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)] ?? 0;
      if (full) expect(median, "p99 with it / p99 without, median").toBeLessThanOrEqual(1.25);
    },
  );

  test("[I3] [I6] killed under a workload: found, taken away, mounted again once, and the workload is announced", {
    timeout: 90_000,
  }, async () => {
    const node = cluster.node("node-a");
    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_MOUNT_CHECK_INTERVAL: "300ms" });
    const channel = createGrpcChannel(node.localAddress, { ownConnection: true });
    const runner = createGrpcClient(WorkloadServiceDefinition, channel, { log: createMemoryLogger() });
    const stop = new AbortController();
    onTestFinished(() => {
      stop.abort();
      channel.close();
    });
    const { place, daemon } = await made("served");
    const claim = { volume: "served" };
    const volumes = [{ claim, mounts: [{ container: "main", containerPath: "/data" }] }];
    const prepare = () =>
      runner.prepareWorkload({ namespace, workload: "web", volumes, waitFor: { seconds: 20n, nanos: 0 } });
    const { workload: before } = await persistently("the workload", prepare);
    const hostPath = before?.mounts[0]?.hostPath ?? "";
    const mounted = () => mountsUnder(path.dirname(hostPath));
    const [first = ""] = await mounted();
    expect(first).toContain(" - fuse ");
    expect(before?.restartWantedSince).toBeUndefined();

    const announced: string[] = [];
    const watching = (async () => {
      for await (const { workload } of runner.watchWorkloads({}, { signal: stop.signal }))
        if (workload?.restartWantedSince !== undefined)
          announced.push(`${workload.workload} ${workload.restartReason}`);
    })().catch(() => undefined);
    await daemon.kill("SIGKILL");
    await until("the workload to be announced", () => announced.length > 0);
    expect(announced[0]).toMatch(/^web ./);

    // Its driver serves it anew, from the same place.
    spawnSync("umount", ["--lazy", place]);
    await startDaemon(place);
    const second = await until("the mount to be there anew", async () => {
      const [line, ...more] = await mounted();
      expect(more).toEqual([]);
      return line !== undefined && line.split(" ")[2] !== first.split(" ")[2] ? line : undefined;
    });
    expect(second).toContain(" - fuse ");
    expect(spawnSync("stat", ["--format", "%F", hostPath], { encoding: "utf8", timeout: 5_000 }).stdout).toBe(
      "directory\n",
    );
    // What runs still holds what died; whoever prepares it again has the new one.
    const seen = await until("the workload to be whole", async () => {
      const { workload } = await runner.getWorkload({ namespace, workload: "web" });
      return workload?.ready === true ? workload : undefined;
    });
    expect(seen.restartWantedSince).toBeDefined();
    expect((await prepare()).workload).toMatchObject({ ready: true, restartWantedSince: undefined });
    await runner.releaseWorkload({ namespace, workload: "web", waitFor: { seconds: 20n, nanos: 0 } });
    expect(await mounted()).toEqual([]);
    stop.abort();
    await watching;
    await persistently("the deletion", () => removeVolume(cluster, "served"));
  });

  test("MOUNT_DEAD: one that is only reported is told on its claim, and is mounted anew once what is printed was run", {
    timeout: 90_000,
  }, async () => {
    const node = cluster.node("node-a");
    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_MOUNT_CHECK_INTERVAL: "300ms", HOLDFAST_DEAD_MOUNTS: "report" });
    const { place, daemon } = await made("reported");
    const claim = await persistently("the claim", () => claimVolume(cluster, "reported"));
    const now = async () => (await cluster.claims.listClaims({ filter: { namespace, volume: "reported" } })).claims[0];
    await daemon.kill("SIGKILL");
    const dead = await until("the claim to say so", async () => (await now())?.blocked);
    expect(dead.reason).toBe("MOUNT_DEAD");
    // Its driver serves it anew, from the same place.
    spawnSync("umount", ["--lazy", place]);
    await startDaemon(place);
    // A person goes on with what is printed until nothing is.
    const ran: string[] = [];
    await until(
      "it to be well",
      async () => {
        const found = await now();
        const line = found?.blocked?.clearWith;
        if (line === undefined) return found?.degradedSince === undefined;
        if (!ran.includes(line)) {
          ran.push(line);
          expect(spawnSync("sh", ["-c", line], { encoding: "utf8" }), line).toMatchObject({ status: 0 });
        }
        return undefined;
      },
      60_000,
    );
    const [line = "", ...more] = await mountsUnder(path.dirname(claim.hostPath));
    expect(more).toEqual([]);
    expect(line).toContain(" - fuse ");
    expect(spawnSync("stat", ["--format", "%F", claim.hostPath], { encoding: "utf8", timeout: 5_000 }).stdout).toBe(
      "directory\n",
    );
    await ended("reported", claim);
  });

  test("D6: one that hangs is told on its claim, in Explain, in events, among what is stuck and in the metrics, until it answers", {
    timeout: 90_000,
  }, async () => {
    const node = cluster.node("node-a");
    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_MOUNT_CHECK_INTERVAL: "300ms", HOLDFAST_CHILD_TIMEOUT: "1s" });
    const { claim, daemon } = await served("still");
    const holdfast = async (args: string) =>
      (await cliRun([...args.split(" "), "--namespace", namespace], { address: cluster.address })).out;
    const blockedNow = async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "still", blocked: true } });
      return claims[0];
    };
    const watch = cluster.events.watchEvents(
      { filter: { namespace, volume: "still" } },
      { signal: AbortSignal.timeout(60_000) },
    );
    const events = watch[Symbol.asyncIterator]();
    // The position comes first.
    await events.next();
    daemon.signal("SIGSTOP");
    const hung = await until("the claim to say so", blockedNow);
    expect(hung).toMatchObject({
      uid: claim.uid,
      degradedReason: "MOUNT_HUNG",
      degradedSince: expect.any(Date),
      blocked: { reason: "MOUNT_HUNG", message: expect.stringContaining(claim.hostPath) },
    });
    expect(stateName(hung)).toBe("ACTIVE");
    expect((await events.next()).value?.event).toMatchObject({ reason: "CLAIM_BLOCKED" });
    expect(await holdfast("volume explain still")).toContain("mounted on node-a, and the mount does not answer");
    expect(await holdfast("repair stuck")).toContain("MOUNT_HUNG");
    expect(await holdfast("claim status w-still still")).toMatch(/Degraded: +MOUNT_HUNG, /);
    expect(await holdfast("claim list")).toContain("ACTIVE BLOCKED DEGRADED");
    const { address } = await cluster.controller().line((it) => it["message"] === "admin listening", "its port");
    const page = async () => (await fetch(`http://${String(address)}/metrics`)).text();
    await until("the metric", async () => /^holdfast_blocked\{reason="MOUNT_HUNG"\} 1$/m.test(await page()));
    expect(await metrics()).toMatch(/^holdfast_halted_volumes\{reason="MOUNT_HUNG"\} 1$/m);

    // What its block asks for: its server is back.
    daemon.signal("SIGCONT");
    await until("it to be well", async () => (await blockedNow()) === undefined);
    expect((await events.next()).value?.event).toMatchObject({ reason: "CLAIM_ACTIVE" });
    expect(await holdfast("repair stuck")).toContain("nothing is stuck");
    const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "still" } });
    expect(claims[0]).toMatchObject({ uid: claim.uid, degradedSince: undefined, degradedReason: "" });
    await ended("still", claim);
  });
});
