import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import { createNodeLocal, nodes } from "../harness/node-local.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";
import { buildHostPath, hasHostPath } from "../support/host-path-driver.ts";

const can = full && (await hasHostPath("csi-driver-host-path as two plugins of one name"));

interface PluginWords {
  readonly node: { readonly healthy: string; readonly expected: string };
  readonly missed: readonly { readonly node: string }[];
  readonly unschedulable_because: string;
}

const volumeSpec = `
id: waits
plugin: hostpath.csi.k8s.io
capacity: { required_bytes: 1MiB }
capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer }]
`;

describe.runIf(can)("csi-driver-host-path as two plugins of one name on two nodes", () => {
  let cluster: Cluster;
  let local: ReturnType<typeof createNodeLocal>;
  let states: string;
  let binary: string;
  const pluginDirs = new Map<string, string>();
  const lives = new Map<string, ManagedProcess[]>();
  const stateOf = (node: string): string => path.join(states, node);

  const startDriver = async (node: string): Promise<void> => {
    const flags = ["enable-attach", "check-volume-lifecycle", "enable-controller-modify-volume"].map(
      (one) => `--${one}`,
    );
    const process = startProcess({
      name: `host path of ${node}`,
      command: [
        binary,
        ...flags,
        ...["--drivername=hostpath.csi.k8s.io", `--nodeid=${node}`, `--statedir=${stateOf(node)}`, "--v=5"],
        ...["--accepted-mutable-parameter-names=k", `--endpoint=unix://${pluginDirs.get(node)}/csi.sock`],
      ],
    });
    lives.set(node, [...(lives.get(node) ?? []), process]);
  };
  const stopDriver = (node: string) => lives.get(node)?.at(-1)?.kill("SIGTERM");

  const driver = {
    plugin: "hostpath.csi.k8s.io",
    place: (node: string) => ({ "topology.hostpath.csi/node": node }),
    /** From its own log: one line as a call begins. */
    calls: async (node: string) =>
      (lives.get(node) ?? []).flatMap((life) =>
        [...life.output().matchAll(/GRPC call[^\n]*csi\.v1\.(?:Group)?Controller\/(\w+)/g)].map(
          ([, method = ""]) => method,
        ),
      ),
    stop: async (node: string) => {
      await stopDriver(node);
      await rm(`${pluginDirs.get(node)}/csi.sock`, { force: true });
      await local.ready(1);
    },
    start: async (node: string) => {
      await startDriver(node);
      await local.ready(2);
    },
  };

  beforeAll(async () => {
    binary = await buildHostPath();
    states = await mkdtemp(path.join(tmpdir(), "hf-hp-"));
    cluster = await startCluster({
      nodes,
      nodePlugin: async (node, pluginDir) => {
        pluginDirs.set(node, pluginDir);
        await startDriver(node);
      },
    });
    local = createNodeLocal(cluster, driver);
    await local.ready(2);
  }, 600_000);
  afterAll(async () => {
    await cluster?.stop();
    for (const node of nodes) await stopDriver(node);
    if (states !== undefined) await rm(states, { recursive: true, force: true });
  });

  it.each(nodes)("every call about a volume of %s goes to the instance there, and waits for it", async (node) => {
    await local.wholeLife(node);
    await local.goneOnReturn(node);
    expect(await readdir(stateOf(node))).toEqual(["state.json"]);
    const left = JSON.parse(await readFile(path.join(stateOf(node), "state.json"), "utf8")) as Record<string, unknown>;
    expect(
      Object.values(left)
        .flat()
        .filter((one) => one !== null),
    ).toEqual([]);
  });

  it("D7 D8 an instance that went is missed, and without any the plugin is waited for, with where the last one was", async () => {
    const asked = async (args: string) => {
      const { code, out, err } = await cliRun([...args.split(" "), "--namespace", "default"], {
        address: cluster.address,
        files: { "v.yaml": volumeSpec },
      });
      expect(code, err).toBe(0);
      return out;
    };
    const plugin = async () =>
      (JSON.parse(await asked(`plugin status ${driver.plugin} --json`)) as { plugin: PluginWords }).plugin;
    const [first, second] = nodes;
    await driver.stop(first);
    const missing = await until(
      "its instance to be missed",
      async () => {
        const now = await plugin();
        return now.missed.length > 0 ? now : undefined;
      },
      180_000,
    );
    expect([missing.node.healthy, missing.node.expected, missing.missed.map(({ node }) => node)]).toEqual([
      "1",
      "2",
      [first],
    ]);
    await stopDriver(second);
    await rm(`${pluginDirs.get(second)}/csi.sock`, { force: true });
    const where = `the last one was seen on node ${second}`;
    await until("none to be left", async () => (await plugin()).unschedulable_because.includes(where), 180_000);
    await asked("volume create v.yaml --no-wait");
    expect(await asked("volume explain waits")).toContain(where);
    for (const node of nodes) await startDriver(node);
    await local.ready(2);
    expect((await plugin()).missed).toEqual([]);
    await asked("volume create v.yaml");
    await asked("volume delete waits");
  }, 600_000);
});
