/** Two podman, each on its own node with its own agent: volumes of Docker's plugin protocol without a daemon. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { image, missingForPodman, type Podman, startPodman } from "../harness/podman.ts";
import { expectClean, namespace, plugin } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const missing = missingForPodman();
const runs = full && process.getuid?.() === 0 && missing.length === 0;
if (full && !runs)
  console.warn(
    `SKIPPED: real podman needs root and: ${missing.join(", ")} (apt-get install podman runc busybox-static)`,
  );

const nodes = ["node-a", "node-b"] as const;
type Node = (typeof nodes)[number];
const driver = "holdfast";

describe.skipIf(!runs)("real podman", { timeout: 300_000 }, () => {
  let dir: string;
  let cluster: Cluster;
  const engines = new Map<Node, Podman>();
  const engine = (node: Node): Podman => {
    const found = engines.get(node);
    if (found === undefined) throw new Error(`no podman on ${node}`);
    return found;
  };
  const podman = (node: Node, ...args: readonly string[]) => engine(node).run(...args);
  const withVolume = (volume: string): readonly string[] => ["-v", `${volume}:/data`, image];
  const shell = (node: Node, volume: string, script: string) =>
    podman(node, "run", "--rm", ...withVolume(volume), "sh", "-c", script);
  const start = (node: Node, name: string, volume: string) =>
    podman(node, "run", "-d", "--name", name, ...withVolume(volume), "sleep", "1000");
  const holders = async (volume: string) =>
    (await cluster.volumes.getVolume({ namespace, id: volume })).volume?.holders.map(({ node }) => node);
  const free = (volume: string) => until(`${volume} to be free`, async () => (await holders(volume))?.length === 0);
  /** Each podman has to be told of the volume; the second one is answered with what is there. */
  const create = (node: Node, volume: string) =>
    podman(node, "volume", "create", "--driver", driver, "-o", `plugin=${plugin}`, "-o", "size=16MiB", volume);

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hfp-"));
    cluster = await startCluster({
      ...{ nodes, realMounts: true, sharedData: true },
      agentEnv: (node) => ({
        HOLDFAST_DOCKER_SOCKET: path.join(dir, `${node}.sock`),
        HOLDFAST_DOCKER_NAMESPACE: namespace,
        HOLDFAST_DOCKER_PID_FILE: path.join(dir, node, "tmp/alive"),
        HOLDFAST_DOCKER_WAIT: "15s",
        HOLDFAST_MOUNT_CHECK_INTERVAL: "300ms",
      }),
    });
    for (const node of nodes)
      engines.set(node, await startPodman(path.join(dir, node), driver, path.join(dir, `${node}.sock`)));
  }, 300_000);
  afterAll(async () => {
    for (const one of engines.values()) await one.end();
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  }, 120_000);

  it("podman run -v: two containers of a host share it, and it moves with its data to the other host", async () => {
    await create("node-a", "data");
    await start("node-a", "one", "data");
    await shell("node-a", "data", "echo kept > /data/file");
    expect(await podman("node-a", "exec", "one", "cat", "/data/file")).toBe("kept");
    expect(await holders("data")).toEqual(["node-a"]);

    await create("node-b", "data");
    await expect(shell("node-b", "data", "true")).rejects.toThrow(/QUEUE_TIMEOUT/);
    await expect(podman("node-b", "volume", "rm", "data")).rejects.toThrow(/VOLUME_IN_USE/);
    expect(await holders("data")).toEqual(["node-a"]);
    await podman("node-a", "rm", "-f", "-t", "0", "one");
    expect(await shell("node-b", "data", "cat /data/file; echo moved > /data/file")).toBe("kept");
    expect(await shell("node-a", "data", "cat /data/file")).toBe("moved");
    await free("data");
    await podman("node-a", "volume", "rm", "data");
    await podman("node-b", "volume", "rm", "data");
    await expectClean(cluster);
  });

  it("the agent killed: a running container writes on, and its end gives the volume back to the next agent", async () => {
    await create("node-a", "on");
    await start("node-a", "two", "on");
    await cluster.node("node-a").agent().kill("SIGKILL");
    await podman("node-a", "exec", "two", "sh", "-c", "echo written > /data/file");
    await expect(shell("node-a", "on", "cat /data/file")).resolves.toBe("written");
    await cluster.node("node-a").startAgent();
    await podman("node-a", "rm", "-f", "-t", "0", "two");
    await free("on");
    expect(await shell("node-a", "on", "cat /data/file")).toBe("written");
    await free("on");
    await podman("node-a", "volume", "rm", "on");
    await expectClean(cluster);
  });

  it("containers and what watches them killed: podman rm gives the volume back", async () => {
    await create("node-a", "crash");
    await start("node-a", "three", "crash");
    await podman("node-a", "exec", "three", "sh", "-c", "echo kept > /data/file");
    await engine("node-a").killContainers();
    expect(await holders("crash")).toEqual(["node-a"]);
    // The first one finds the container gone, and the second one takes it away.
    await podman("node-a", "rm", "-f", "-t", "0", "three").catch(() => podman("node-a", "rm", "-f", "three"));
    await free("crash");
    expect(await shell("node-a", "crash", "cat /data/file")).toBe("kept");
    await free("crash");
    await podman("node-a", "volume", "rm", "crash");
    await expectClean(cluster);
  });

  it("podman has forgotten its containers as after a boot: the next container has the volume with its data, and gives it back", async () => {
    await create("node-a", "boot");
    await start("node-a", "four", "boot");
    await podman("node-a", "exec", "four", "sh", "-c", "echo kept > /data/file");
    await engine("node-a").boot();
    expect(await holders("boot")).toEqual(["node-a"]);
    await podman("node-a", "ps", "-a");
    // Where the agent cannot see all mounts of the host it keeps the id, and says so.
    const output = () => cluster.node("node-a").agent().output();
    if (output().includes('"verification_scope":"host"')) await free("boot");
    else await until("the agent to name the id", () => output().includes("mounts of a former dockerd are kept"));
    await podman("node-a", "start", "four");
    expect(await podman("node-a", "exec", "four", "cat", "/data/file")).toBe("kept");
    await podman("node-a", "rm", "-f", "-t", "0", "four");
    await free("boot");
    await podman("node-a", "volume", "rm", "boot");
    await expectClean(cluster);
  });
});
