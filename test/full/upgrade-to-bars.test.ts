/**
 * The step to bars, as docs/operations.md says it: one controller at a time, under claims in every state. Until the upgrade is finished no
 * call is overtaken, since the release before would not heed a bar; afterwards that release does not start.
 */
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterEach, describe, expect, it } from "vitest";
import type { ManagedProcess } from "../harness/managed-process.ts";
import {
  environmentOf,
  harnessOf,
  isInHistory,
  mountsBelow,
  ready,
  repo,
  startService,
  treeOf,
} from "../harness/release-before.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";
import { startRedisServer } from "../support/redis-server.ts";

/** The last one without bars. */
const before = "c3c7422";

const root = process.getuid?.() === 0;
const there = isInHistory(before);
if (full && !root) console.warn("SKIPPED: real mounts need root");
if (full && !there) console.warn(`SKIPPED: the history here does not hold ${before}`);

const cleanups: (() => Promise<unknown> | unknown)[] = [];
const cleanup = (end: () => Promise<unknown> | unknown): void => void cleanups.push(end);
afterEach(async () => {
  for (const end of cleanups.splice(0).reverse()) await end();
});

const namespace = "default";
const nodes = ["node-a", "node-b"];
const nodeOf = (index: number): string => nodes[index % nodes.length] ?? "";
const waitFor = { seconds: 60n, nanos: 0 };
const volumes = 30;

describe.runIf(full && root && there)("the step to bars", () => {
  it("keeps every mount under 50 claims in every state, and lets no call be overtaken before it is finished", {
    timeout: 600_000,
  }, async () => {
    const redis = await startRedisServer();
    cleanup(() => redis.stop());
    const old = await treeOf(before, cleanup);
    const cluster = await (await harnessOf(old)).startCluster({
      nodes,
      store: redis.url,
      second: {},
      realMounts: true,
      backend: { judgesArrivals: true },
    });
    cleanup(() => cluster.stop());
    for (let index = 0; index < volumes; index += 1)
      await cluster.volumes.createVolume({
        namespace,
        id: `v${index}`,
        plugin: "sim.holdfast.dev",
        capacity: { requiredBytes: 1n << 24n },
        capabilities: [{ attachmentMode: 1, accessMode: 1 }],
        waitFor,
      });
    const claim = (index: number, workload: string, wait: typeof waitFor | undefined) =>
      cluster.claims.createClaims({
        namespace,
        workload,
        node: nodeOf(index),
        claims: [{ volume: `v${index}` }],
        queue: { enabled: true },
        ...(wait === undefined ? {} : { waitFor: wait }),
      });
    for (let index = 0; index < volumes; index += 1) await claim(index, `w${index}`, waitFor);
    const dirs = nodes.map((name) => cluster.node(name).rootDir);
    // Of these nothing is asked any more until the end.
    const staying = 10;
    const stays = (line: string): boolean =>
      Array.from({ length: staying }, (_, index) => index).some((index) => new RegExp(`/w${index}/`).test(`${line}/`));
    const mounted = async () => (await mountsBelow(dirs)).filter(stays);
    const untouched = await mounted();

    // The others are let go while twenty more wait behind them, and every detach takes its time.
    await cluster.backend.client.addFault({
      method: "ControllerUnpublishVolume",
      hangMs: 3_000,
      when: "after",
      times: 8,
    });
    for (let index = staying; index < volumes; index += 1) {
      await claim(index, `next-${index}`, undefined);
      await cluster.claims.releaseClaims({ namespace, workload: `w${index}` });
    }

    const environments = [await environmentOf(cluster.controller()), await environmentOf(cluster.second.process())];
    const addresses = [
      [cluster.address, cluster.agentAddress],
      [cluster.second.address, cluster.second.agentAddress],
    ];
    const controllers = [cluster.controller(), cluster.second.process()];
    const newer: ManagedProcess[] = [];
    const start = async (tree: string, at: 0 | 1): Promise<ManagedProcess> => {
      const [listen = "", agents = ""] = addresses[at] ?? [];
      const env = { ...environments[at], HOLDFAST_LISTEN: listen, HOLDFAST_AGENT_LISTEN: agents };
      return await startService(tree, "controller", env, cleanup);
    };
    for (const at of [1, 0] as const) {
      await controllers[at]?.kill("SIGTERM");
      // A controller of that release leaves its calls open at its plugin; the next life of it asks for the same.
      await cluster.backend.client.senderEnded(at === 0 ? "first" : "second");
      const started = await start(repo, at);
      newer.push(started);
      await ready(started);
    }
    for (const name of nodes) {
      const agent = cluster.node(name).agent();
      const env = await environmentOf(agent);
      await agent.kill("SIGTERM");
      await ready(await startService(repo, "node-agent", env, cleanup));
    }
    expect(await mounted()).toEqual(untouched);

    const { claims } = cluster;
    await until(
      "every claim to be where it was to go",
      async () => {
        const found = (await claims.listClaims({ filter: { namespace }, pageSize: 200 })).claims;
        const active = found.filter(({ state }) => state === ClaimState.CLAIM_STATE_ACTIVE);
        return active.length === volumes;
      },
      180_000,
    );
    for (const process of newer) expect(process.output()).not.toContain("behind a bar");
    expect((await cluster.backend.client.violations()).map(({ rule, message }) => `${rule}: ${message}`)).toEqual([]);
    expect(await mounted()).toEqual(untouched);

    const asked = { reason: "all are new" };
    expect(await cluster.repair.getUpgrade({})).toMatchObject({ format: 2, newestFormat: 3 });
    const { outcome } = await cluster.repair.finishUpgrade({ ...asked, dryRun: true });
    await cluster.repair.finishUpgrade({ ...asked, confirm: outcome?.confirmWith ?? "" });
    await newer[0]?.kill("SIGTERM");
    const tooOld = await start(old, 1);
    expect(await tooOld.exited()).toBe(78);
    await ready(await start(repo, 1));
    for (let index = 0; index < volumes; index += 1) {
      const workload = index < staying ? `w${index}` : `next-${index}`;
      const released = await claims.releaseClaims({ namespace, workload, waitFor });
      expect(released.claims.map(({ state }) => state)).toEqual([ClaimState.CLAIM_STATE_RELEASED]);
    }
    expect(await mountsBelow(dirs)).toEqual([]);
  });
});
