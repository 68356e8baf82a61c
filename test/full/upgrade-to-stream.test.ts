/**
 * The step from calls of agents and controllers to one stream, as docs/operations.md says it, and the way back: the release before comes
 * from the history, with its own harness.
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
  startService as startIn,
  treeOf,
} from "../harness/release-before.ts";
import { full } from "../support/full.ts";

/** The last one whose agents are dialled. */
const before = "93557ca";

const root = process.getuid?.() === 0;
const there = isInHistory(before);
if (full && !root) console.warn("SKIPPED: real mounts need root");
if (full && !there) console.warn(`SKIPPED: the history here does not hold ${before}`);

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const namespace = "default";
const claimed = 20;
const waitFor = { seconds: 60n, nanos: 0 };
const nodes = ["node-a", "node-b"];
const nodeOf = (index: number): string => nodes[index % nodes.length] ?? "";

const cleanup = (end: () => Promise<unknown> | unknown): void => void cleanups.push(end);

const startService = async (
  ...started: [string, "controller" | "node-agent", Record<string, string>]
): Promise<ManagedProcess> => {
  const service = await startIn(...started, cleanup);
  await ready(service);
  return service;
};

describe.runIf(full && root && there)("the step from unary calls to the stream", () => {
  it("leaves 20 mounted claims as they are, lets new ones wait for less than 60 s, and can be taken back", {
    timeout: 600_000,
  }, async () => {
    const old = await treeOf(before, cleanup);
    const cluster = await (await harnessOf(old)).startCluster({ nodes, realMounts: true });
    cleanups.push(() => cluster.stop());
    const make = async (id: string): Promise<void> => {
      await cluster.volumes.createVolume({
        namespace,
        id,
        plugin: "sim.holdfast.dev",
        capacity: { requiredBytes: 1n << 24n },
        capabilities: [{ attachmentMode: 1, accessMode: 1 }],
        waitFor,
      });
    };
    const claim = async (volume: string, node: string): Promise<void> => {
      const { claims } = await cluster.claims.createClaims({
        namespace,
        workload: `w-${volume}`,
        node,
        claims: [{ volume }],
        waitFor,
      });
      expect(claims.map(({ state }) => state)).toEqual([ClaimState.CLAIM_STATE_ACTIVE]);
    };
    for (let index = 0; index < claimed; index += 1) await make(`v${index}`);
    for (let index = 0; index < claimed; index += 1) await claim(`v${index}`, nodeOf(index));
    for (const each of ["forth", "back"]) await make(each);
    const dirs = nodes.map((name) => cluster.node(name).rootDir);
    const mounted = await mountsBelow(dirs);
    expect(mounted.length).toBeGreaterThanOrEqual(claimed);

    const oldController = cluster.controller();
    const oldAgents = nodes.map((name) => cluster.node(name).agent());
    const controllerEnv = await environmentOf(oldController);
    const agentEnvs = await Promise.all(oldAgents.map(environmentOf));
    const addresses = await Promise.all(oldAgents.map(ready));

    // Forth: controllers first, then one agent after the other.
    await oldController.kill("SIGTERM");
    const { HOLDFAST_ADVERTISE: _told, HOLDFAST_PEERS: _others, ...kept } = controllerEnv;
    const address = { HOLDFAST_LISTEN: cluster.address };
    const newController = await startService(repo, "controller", {
      ...kept,
      ...address,
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
    });
    const agentAddress = String((await ready(newController))["agents"]);
    const newAgents: ManagedProcess[] = [];
    for (const [at, agent] of oldAgents.entries()) {
      await agent.kill("SIGTERM");
      const { HOLDFAST_LISTEN: _listen, HOLDFAST_ADVERTISE: _where, ...env } = agentEnvs[at] ?? {};
      newAgents.push(await startService(repo, "node-agent", { ...env, HOLDFAST_CONTROLLERS: agentAddress }));
    }
    expect(await mountsBelow(dirs)).toEqual(mounted);
    await claim("forth", "node-a");
    await cluster.claims.releaseClaims({ namespace, workload: "w-forth", waitFor });
    expect(await mountsBelow(dirs)).toEqual(mounted);

    // Back, the same way round.
    await newController.kill("SIGTERM");
    await startService(old, "controller", { ...controllerEnv, ...address });
    for (const [at, agent] of newAgents.entries()) {
      await agent.kill("SIGTERM");
      const env = { ...agentEnvs[at], HOLDFAST_LISTEN: String(addresses[at]?.["address"]) };
      await startService(old, "node-agent", env);
    }
    expect(await mountsBelow(dirs)).toEqual(mounted);
    await claim("back", "node-b");
    for (let index = 0; index < claimed; index += 1) {
      const { claims } = await cluster.claims.releaseClaims({ namespace, workload: `w-v${index}`, waitFor });
      expect(claims.map(({ state }) => state)).toEqual([ClaimState.CLAIM_STATE_RELEASED]);
    }
  });
});
