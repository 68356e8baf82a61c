/**
 * The wall clock of a service is set by hours and days while it runs, as by a person or by NTP after a boot. Leases, gates and pauses are
 * of the monotonic clock: nothing is fenced, released or forgotten, and what is asked goes on as before.
 */
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { createFakeClock, noFakeClock } from "../support/fake-clock.ts";
import { full } from "../support/full.ts";
import { startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");
if (full && noFakeClock !== undefined) console.warn(`SKIPPED: ${noFakeClock}`);

const jumps = ["+3h", "+0", "-3h", "+5d", "-5d", "+0"];

it.runIf(full && root && noFakeClock === undefined).each(["sqlite", "redis"])(
  "[I1] [I2] the wall clocks of controller and agent jump, on %s: mounts stay, the node stays READY, claims come and go",
  async (kind) => {
    const [ofController, ofAgent] = [createFakeClock(), createFakeClock()];
    onTestFinished(() => {
      ofController.remove();
      ofAgent.remove();
    });
    const redis = kind === "redis" ? await startRedisServer() : undefined;
    onTestFinished(async () => redis?.stop());
    const cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      ...(redis === undefined ? {} : { store: redis.url }),
      controllerEnv: ofController.env,
      agentEnv: ofAgent.env,
    });
    onTestFinished(() => cluster.stop());
    for (const id of ["stays", "moves"]) await makeVolume(cluster, id);
    const stays = await claimVolume(cluster, "stays");
    expect(stateName(stays)).toBe("ACTIVE");
    const mounts = await mountsUnder(cluster.dir);
    const epochs: unknown[] = [];
    for (const [who, clock] of [
      ["controller", ofController],
      ["agent", ofAgent],
    ] as const)
      for (const [n, ahead] of jumps.entries()) {
        const workload = `${who}-${n}`;
        // A claim that is there, and one under way.
        const claimed = claimVolume(cluster, "moves", { workload });
        clock.set(ahead);
        expect(stateName(await claimed), `${who} ${ahead}`).toBe("ACTIVE");
        const hour = 3_600_000;
        if (who === "controller")
          await until(`the controller to see ${ahead}`, async () => {
            const { volume } = await cluster.volumes.createVolume({
              ...{ namespace: "test", id: `seen-${n}`, plugin: "sim.holdfast.dev" },
              ...{ capacity: { requiredBytes: 1n << 20n }, capabilities: [{ accessMode: 1, attachmentMode: 1 }] },
            });
            const off = ((volume?.createdAt?.getTime() ?? 0) - Date.now()) / hour;
            const wanted = { "+3h": 3, "+0": 0, "-3h": -3, "+5d": 120, "-5d": -120 }[ahead] ?? 0;
            await removeVolume(cluster, `seen-${n}`);
            return Math.abs(off - wanted) < 0.5;
          });
        else await new Promise((resolve) => setTimeout(resolve, 2_500));
        const over = await releaseWorkload(cluster, workload);
        expect(over.map(stateName), `${who} ${ahead}`).toEqual(["RELEASED"]);
        const { node } = await cluster.nodes.getNode({ name: "node-a" });
        expect(node?.state, `${who} ${ahead}`).toBe(NodeState.NODE_STATE_READY);
        const { claims } = await cluster.claims.listClaims({ filter: { namespace: "test", workload: "w-stays" } });
        epochs.push(claims[0]?.epoch);
        expect(claims.map(stateName), `${who} ${ahead}`).toEqual(["ACTIVE"]);
        expect(await mountsUnder(cluster.dir)).toEqual(mounts);
      }
    expect(
      new Set(epochs.map((epoch) => JSON.stringify(epoch, (_, v) => (typeof v === "bigint" ? String(v) : v)))).size,
    ).toBe(1);
    expect(cluster.output()).not.toMatch(/a fault that nobody caught|nodes are suspect/);
    expect((await releaseWorkload(cluster, "w-stays")).map(stateName)).toEqual(["RELEASED"]);
    for (const id of ["stays", "moves"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);
