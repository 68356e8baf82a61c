import { mkdir } from "node:fs/promises";
import {
  type SimBackendProcess,
  type SimPluginProcess,
  startSimBackend,
  startSimPlugin,
} from "@holdfast/sim-plugin/processes";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { createNodeLocal, nodes } from "../harness/node-local.ts";
import { fileWriter, namespace, plugin, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("lateness 10: two instances of a driver of local storage under one name", () => {
  let cluster: Cluster;
  let local: ReturnType<typeof createNodeLocal>;
  const backends = new Map<string, SimBackendProcess>();
  const instances = new Map<string, SimPluginProcess>();
  const dirs = new Map<string, string>();

  const there = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error("it was not started");
    return part;
  };
  const startInstance = async (node: string): Promise<void> => {
    const dir = there(dirs.get(node));
    const backend = there(backends.get(node)).socketPath;
    instances.set(
      node,
      await startSimPlugin({ dir, backend, role: "monolith", node, realMounts: true, dataDir: `${dir}-d` }),
    );
  };
  const driver = {
    plugin,
    place: (node: string) => ({ "sim.holdfast.dev/host": node }),
    calls: async (node: string) => (await there(backends.get(node)).client.record()).map(({ method }) => method),
    stop: async (node: string) => {
      await instances.get(node)?.stop();
      await local.ready(1);
    },
    start: async (node: string) => {
      await startInstance(node);
      await local.ready(2);
    },
  };

  beforeAll(async () => {
    cluster = await startCluster({
      nodes,
      nodePlugin: async (node, pluginDir) => {
        dirs.set(node, pluginDir);
        const dir = `${pluginDir}-b`;
        await mkdir(dir, { mode: 0o700 });
        backends.set(node, await startSimBackend({ dir, nodes: { [node]: { topology: driver.place(node) } } }));
        await startInstance(node);
      },
    });
    local = createNodeLocal(cluster, driver);
    await local.ready(2);
  });
  afterAll(async () => {
    await cluster?.stop();
    for (const one of [...instances.values(), ...backends.values()]) await one.stop();
  });

  const leftAt = async (node: string) => {
    const { state, violations } = await there(backends.get(node)).client.snapshot();
    expect(violations).toEqual([]);
    return [...state.volumes.keys(), ...state.snapshots.keys(), ...state.attachments.keys()];
  };

  it.each(nodes)("every call about a volume of %s goes to the instance there, and waits for it", async (node) => {
    await local.wholeLife(node);
    await local.goneOnReturn(node);
    expect(await leftAt(node)).toEqual([]);
  });

  it("a volume without a place stays with the instance that made it; a detach waits for that one", async () => {
    await local.create("anywhere");
    const [home = "node-a"] = (
      await Promise.all(nodes.map(async (node) => ((await leftAt(node)).length === 1 ? [node] : [])))
    ).flat();
    await local.use("anywhere", home);
    await driver.stop(home);
    await local.onlyAt(home, async () => {
      await cluster.claims.releaseClaims({ namespace, workload: "w-anywhere", waitFor: { seconds: 1n, nanos: 0 } });
    });
    const calls = await local.onlyAt(home, async () => {
      await driver.start(home);
      // It was asked for before: it may be over by now.
      const over = (await releaseWorkload(cluster, "w-anywhere")).map(stateName);
      expect(["RELEASED"]).toEqual(expect.arrayContaining(over));
      await removeVolume(cluster, "anywhere");
    });
    expect(calls).toEqual(["ControllerUnpublishVolume", "DeleteVolume"]);
  });

  it("what is to be made where no instance is waits, with the place, and leaves nothing when it is given up", async () => {
    const nowhere = { topology: { required: [{ segments: driver.place("node-c") }] } };
    await local.create("nowhere", { ...nowhere, waitFor: undefined });
    await until("the reason", async () => {
      const said = await local.explained("nowhere");
      return said.includes("PLUGIN_NOT_READY") && said.includes("node-c");
    });
    await removeVolume(cluster, "nowhere");
    await expect(cluster.volumes.getVolume({ namespace, id: "nowhere" })).rejects.toThrow(/no volume/);
    for (const node of nodes) expect(await leftAt(node)).toEqual([]);
  });

  it("a listing has the volumes of both, and none is taken for complete without one of them", async () => {
    for (const node of nodes) await local.create(`l-${node}`, local.at(node));
    const pages = [];
    let pageToken = "";
    do {
      const page = await cluster.volumes.listExternalVolumes({ plugin, pageToken });
      pages.push(...page.volumes);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(pages).toHaveLength(2);
    // Storage that is registered without a place is looked for at each instance; the one that has it is asked about it.
    const known = pages.find(({ knownId }) => knownId === "l-node-b");
    await cluster.volumes.deregisterVolume({ namespace, id: "l-node-b" });
    const registered = await local.onlyAt("node-b", async () => {
      const { volume } = await cluster.volumes.registerVolume({
        namespace,
        id: "l-node-b",
        plugin,
        externalId: known?.externalId ?? "",
        capabilities: [fileWriter],
        waitFor: { seconds: 30n, nanos: 0 },
      });
      expect(volume?.topology?.accessible.map(({ segments }) => segments)).toEqual([driver.place("node-b")]);
    });
    expect(registered).toEqual(["ValidateVolumeCapabilities"]);
    await driver.stop("node-b");
    const first = await cluster.volumes.listExternalVolumes({ plugin });
    expect(first.volumes).toHaveLength(1);
    await expect(cluster.volumes.listExternalVolumes({ plugin, pageToken: first.nextPageToken })).rejects.toThrow(
      /node-b/,
    );
    await driver.start("node-b");
    for (const node of nodes) await removeVolume(cluster, `l-${node}`);
  });
});
