/**
 * A call is held at the agent that relays it, or at the plugin behind that agent, while hosts, plugins and names change around it.
 * Other volumes and other nodes go on meanwhile, and what the held call bars goes on by itself once that call has ended.
 */
import { cp, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { SimPluginProcess } from "@holdfast/sim-plugin/processes";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { claimGoesOn, othersGoOn, queuedClaim } from "../harness/goes-on.ts";
import { heldDetach } from "../harness/held-detach.ts";
import { startMountNamespace } from "../harness/mount-namespace.ts";
import { startNodeCopy } from "../harness/node-copy.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  growVolume,
  makeVolume,
  namespace,
  persistently,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const relays = ["node-a", "node-b"];
/** It has no controller half: its own agent always answers. */
const holder = "node-c";
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("a call that is held at a relay", () => {
  let cluster: Cluster;
  const halves = new Map<string, SimPluginProcess>();

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: [...relays, holder],
      controllerHalvesOn: relays,
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
      backend: { judgesArrivals: true },
    });
    for (const node of relays) halves.set(node, await cluster.node(node).startControllerHalf());
    // Once it is known how long calls take, one that takes far longer holds its node no more.
    await persistently("a first volume", () => othersGoOn(cluster, [holder]));
  });
  afterAll(() => cluster?.stop());

  const detach = heldDetach(() => cluster);
  const { volumeOf, barsOf, detachesOf, given } = detach;
  const half = (node: string): SimPluginProcess => {
    const found = halves.get(node);
    if (found === undefined) throw new Error(`no controller half runs on ${node}`);
    return found;
  };
  const known = (node: string): Promise<unknown> =>
    until(`${node} to have its plugin`, async () => {
      const found = await cluster.nodes.getNode({ name: node }).catch(() => undefined);
      const healthy = found?.node?.plugins.some(({ health }) => health === PluginHealth.PLUGIN_HEALTH_HEALTHY);
      return healthy === true && found?.node?.state === NodeState.NODE_STATE_READY;
    });
  const lifted = (id: string): Promise<unknown> =>
    until("the bar to go", async () => (await barsOf(id)).length === 0, 60_000);
  const callsOf = async (method: string): Promise<readonly string[]> =>
    (await cluster.backend.client.record()).filter((call) => call.method === method).map(({ instance }) => instance);

  /** A volume that the holder has. Tells which relay is called: the one that was called last stays the one. */
  const held = async (id: string): Promise<{ readonly relay: string; readonly other: string }> => {
    await cluster.backend.client.clear();
    await persistently("the volume", () => makeVolume(cluster, id));
    expect(stateName(await claimVolume(cluster, id, { node: holder }))).toBe("ACTIVE");
    const relay = (await callsOf("ControllerPublishVolume"))[0] ?? "";
    return { relay, other: relay === "node-a" ? "node-b" : "node-a" };
  };
  const overtaken = (id: string, by: string): Promise<void> => detach.overtaken(id, { holder, by });
  const removed = async (id: string): Promise<void> => {
    await removeVolume(cluster, id);
    await expectClean(cluster);
  };
  const ended = async (id: string, workload: string): Promise<void> => {
    expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    await removed(id);
  };

  it("[I2] the plugin frozen and its gate killed: the next life of the gate repeats the call when the plugin answers", async () => {
    const { relay, other } = await held("frozen");
    const frozen = freeze(half(relay));
    onTestFinished(frozen.thaw);
    await given("frozen");
    // It is on its way to the plugin: nothing tells when it lies in the socket.
    await pause(500);
    await cluster.node(relay).agent().kill("SIGKILL");
    await overtaken("frozen", other);
    await cluster.node(relay).startAgent();
    await othersGoOn(cluster, [holder, other]);
    await claimGoesOn(cluster, "frozen", other);
    const next = queuedClaim(cluster, "frozen", holder, "next");
    expect(await barsOf("frozen")).toHaveLength(1);
    frozen.thaw();
    expect(await next.state).toBe("ACTIVE");
    expect(await barsOf("frozen")).toEqual([]);
    // As it came from the gate that is gone, and as the next one repeated it.
    const instances = (await detachesOf("frozen")).map(({ instance }) => instance);
    expect(instances.filter((at) => at === relay)).toHaveLength(2);
    await ended("frozen", "next");
  });

  it("[I5] an external id beside an open call of it is not let go, nor registered under another name", async () => {
    const { relay } = await held("before");
    await releaseWorkload(cluster, "w-before");
    const made = await volumeOf("before");
    const register = () =>
      cluster.volumes.registerVolume({
        namespace,
        id: "after",
        plugin,
        externalId: made?.externalId ?? "",
        context: made?.context ?? {},
        capabilities: [fileWriter],
        waitFor: { seconds: 45n, nanos: 0 },
      });
    const letGo = () => cluster.volumes.deregisterVolume({ namespace, id: "before" });
    const frozen = freeze(cluster.node(relay).agent());
    onTestFinished(frozen.thaw);
    const growing = growVolume(cluster, "before");
    await until("the call to be given away", async () => (await volumeOf("before"))?.intent !== undefined);
    await expect(letGo()).rejects.toMatchObject({ reason: "VOLUME_BUSY" });
    expect(await growing).toMatchObject({
      capacity: { actualBytes: 32n << 20n },
      expansion: { controllerDone: true },
      bars: [{ operation: "expand", instance: expect.stringContaining(relay) }],
    });
    await expect(letGo()).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    await expect(register()).rejects.toMatchObject({ reason: "VOLUME_EXISTS" });
    await othersGoOn(cluster, [holder]);
    await claimGoesOn(cluster, "before", holder);
    frozen.thaw();
    await lifted("before");
    await letGo();
    await register();
    await claimGoesOn(cluster, "after", holder);
    await removeVolume(cluster, "after");
    await cluster.backend.client.dropVolume(made?.externalId ?? "");
    await expectClean(cluster);
  });

  it("[I2] the node of the barred pair comes back under another name: the bar is about the plugin's name for it", async () => {
    const { relay, other } = await held("renamed");
    const frozen = freeze(cluster.node(relay).agent());
    onTestFinished(frozen.thaw);
    await given("renamed");
    await overtaken("renamed", other);
    await cluster.node(holder).agent().kill("SIGTERM");
    await cluster.node(holder).startAgent({
      HOLDFAST_NODE: "node-x",
      HOLDFAST_STATE_DIR: path.join(cluster.dir, "node-x-state"),
    });
    await known("node-x");
    const early = claimVolume(cluster, "renamed", { node: "node-x", workload: "early" });
    await expect(early).rejects.toThrow(/clear-bar/);
    await othersGoOn(cluster, ["node-x", other]);
    await claimGoesOn(cluster, "renamed", other);
    const next = queuedClaim(cluster, "renamed", "node-x", "next");
    frozen.thaw();
    expect(await next.state).toBe("ACTIVE");
    expect(await barsOf("renamed")).toEqual([]);
    await ended("renamed", "next");
    await cluster.node(holder).agent().kill("SIGTERM");
    await cluster.node(holder).startAgent();
    await known(holder);
  });

  it("[I2] [I5] a rolling upgrade of the plugin in the middle of a call: its old process answers, or its next one is asked the same", async () => {
    const { relay, other } = await held("upgraded");
    const { client } = cluster.backend;
    const method = "ControllerUnpublishVolume";
    const isOpen = async () => (await client.inFlight()).some((call) => call.method === method);
    const detachOpen = async (): Promise<void> => {
      await client.addFault({ method, hangMs: 8_000, when: "before", times: 1 });
      await cluster.claims.releaseClaims({ namespace, workload: "w-upgraded" });
      await until("the detach to be open", isOpen);
    };
    const over = async (): Promise<void> =>
      expect((await releaseWorkload(cluster, "w-upgraded")).map(stateName)).toEqual(["RELEASED"]);

    await detachOpen();
    const old = half(relay);
    onTestFinished(() => old.kill());
    const renewed = `${relay}-renewed`;
    await unlink(old.socketPath);
    halves.set(relay, await cluster.node(relay).startControllerHalf(renewed));
    await until("the new process to be called", async () => {
      await othersGoOn(cluster, [holder, other]);
      return (await callsOf("DeleteVolume")).includes(renewed);
    });
    expect(await isOpen()).toBe(true);
    await over();
    old.kill();

    expect(stateName(await claimVolume(cluster, "upgraded", { node: holder }))).toBe("ACTIVE");
    await detachOpen();
    await half(relay).stop();
    await othersGoOn(cluster, [holder]);
    expect((await callsOf("DeleteVolume")).at(-1)).toBe(other);
    halves.set(relay, await cluster.node(relay).startControllerHalf());
    await over();
    expect(await detachesOf("upgraded")).toEqual([
      { instance: relay, reply: "sent" },
      { instance: renewed, reply: "died" },
      { instance: relay, reply: "sent" },
    ]);
    expect(await barsOf("upgraded")).toEqual([]);
    await removed("upgraded");
  });

  // The name of the relay belongs to the clone afterwards.
  it("[I2] the host of the gate is cloned meanwhile: the clone gets the calls to come, and lifts no bar; a person does", async () => {
    const { relay, other } = await held("cloned");
    const node = cluster.node(relay);
    const frozen = freeze(node.agent());
    onTestFinished(frozen.thaw);
    await given("cloned");
    const [stateDir, bootId] = [path.join(cluster.dir, "copied-state"), path.join(cluster.dir, "boot-id")];
    await cp(node.stateDir, stateDir, { recursive: true });
    await writeFile(bootId, "11111111-2222-3333-4444-555555555555\n");
    const space = await startMountNamespace({ over: { "/proc/sys/kernel/random/boot_id": bootId } });
    onTestFinished(async () => void (await space.end()));
    const of = { stateDir, machineIdFile: machineIdFile(), mountsOf: space.pid, controllerHalf: true } as const;
    const copy = await startNodeCopy(cluster, node, of);
    onTestFinished(() => copy.stop());
    expect((await releaseWorkload(cluster, "w-cloned")).map(stateName)).toEqual(["RELEASED"]);
    const [bar] = await barsOf("cloned");
    expect(bar).toMatchObject({ node: holder, operation: "detach", instance: expect.stringContaining(relay) });
    await othersGoOn(cluster, [holder, other]);
    await claimGoesOn(cluster, "cloned", other);
    frozen.thaw();
    await until("the original to speak again", async () => {
      const { node: told } = await cluster.nodes.getNode({ name: relay });
      return told?.blocked?.reason === "NODE_CONFLICT";
    });
    const early = claimVolume(cluster, "cloned", { node: holder, workload: "early" });
    await expect(early).rejects.toThrow(/clear-bar/);
    const next = queuedClaim(cluster, "cloned", holder, "next");
    const asked = { namespace, volume: "cloned", bar: bar?.id ?? "", evidence: "the original is off", reason: "test" };
    const { outcome } = await cluster.repair.clearBar({ ...asked, dryRun: true });
    await cluster.repair.clearBar({ ...asked, confirm: outcome?.confirmWith ?? "" });
    expect(await next.state).toBe("ACTIVE");
    expect(await copy.changes()).toEqual([]);
    await ended("cloned", "next");
  });
});
