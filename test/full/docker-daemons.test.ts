/** Two real dockerd, each on its own node with its own agent: what is written moves with the container, and nothing is lost or left. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type DockerDaemon, image, missingForDocker, startDockerDaemon } from "../harness/docker-daemon.ts";
import { expectClean, namespace, plugin, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const missing = missingForDocker();
const runs = full && process.getuid?.() === 0 && missing.length === 0;
if (full && !runs)
  console.warn(
    `SKIPPED: real dockerd needs root and: ${missing.join(", ")} (apt-get install docker.io busybox-static)`,
  );

/** dockerd finds plugins for the whole machine, so that each of a test has a name of its own. */
const specs = "/etc/docker/plugins";
const nodes = ["node-a", "node-b"] as const;
type Node = (typeof nodes)[number];

describe.skipIf(!runs)("real dockerd", { timeout: 180_000 }, () => {
  let dir: string;
  let cluster: Cluster;
  const daemons = new Map<Node, DockerDaemon>();
  const driverOf = (node: Node): string => `hf-${path.basename(dir).slice(-6).toLowerCase()}-${node}`;
  const specOf = (node: Node): string => path.join(specs, `${driverOf(node)}.spec`);
  const daemon = (node: Node): DockerDaemon => {
    const found = daemons.get(node);
    if (found === undefined) throw new Error(`no dockerd on ${node}`);
    return found;
  };
  const docker = (node: Node, ...args: readonly string[]) => daemon(node).run(...args);
  const withVolume = (node: Node, volume: string): readonly string[] => [
    ...["--network", "none", "--volume-driver", driverOf(node), "-v", `${volume}:/data`, image],
  ];
  const shell = (node: Node, volume: string, script: string) =>
    docker(node, "run", "--rm", ...withVolume(node, volume), "sh", "-c", script);
  const holders = async (volume: string) =>
    (await cluster.volumes.getVolume({ namespace, id: volume })).volume?.holders.map(({ node }) => node);
  const free = (volume: string) => until(`${volume} to be free`, async () => (await holders(volume))?.length === 0);
  const create = (node: Node, volume: string) =>
    docker(node, "volume", "create", "-d", driverOf(node), "-o", `plugin=${plugin}`, "-o", "size=16MiB", volume);
  const restartAgent = async (node: Node): Promise<void> => {
    await cluster.node(node).agent().kill("SIGKILL");
    await cluster.node(node).startAgent();
  };

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hfd-"));
    cluster = await startCluster({
      ...{ nodes, realMounts: true, sharedData: true },
      agentEnv: (node) => ({
        HOLDFAST_DOCKER_SOCKET: path.join(dir, `${node}.sock`),
        HOLDFAST_DOCKER_NAMESPACE: namespace,
        HOLDFAST_DOCKER_PID_FILE: path.join(dir, node, "pid"),
        HOLDFAST_DOCKER_WAIT: "15s",
        HOLDFAST_MOUNT_CHECK_INTERVAL: "300ms",
      }),
    });
    await mkdir(specs, { recursive: true });
    for (const node of nodes) {
      await writeFile(specOf(node), `unix://${path.join(dir, `${node}.sock`)}`);
      daemons.set(node, await startDockerDaemon(path.join(dir, node)));
    }
  }, 120_000);
  afterAll(async () => {
    for (const one of daemons.values()) await one.end();
    for (const node of nodes) await rm(specOf(node), { force: true });
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it("docker run -v: two containers of a host share it, and it moves with its data to the other host", async () => {
    await create("node-a", "data");
    await docker("node-a", "run", "-d", "--name", "one", ...withVolume("node-a", "data"), "sleep", "1000");
    await shell("node-a", "data", "echo kept > /data/file");
    expect(await docker("node-a", "exec", "one", "cat", "/data/file")).toBe("kept");
    expect(await holders("data")).toEqual(["node-a"]);
    await expect(docker("node-a", "volume", "rm", "data")).rejects.toThrow(/in use/);

    // The other host waits for the last container of the first.
    const moved = shell("node-b", "data", "cat /data/file; echo moved > /data/file");
    moved.catch(() => undefined);
    await until("node-b to wait for it", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "data" } });
      return claims.some((claim) => claim.node === "node-b" && stateName(claim) === "QUEUED");
    });
    await docker("node-a", "rm", "-f", "one");
    expect(await moved).toBe("kept");
    expect(await shell("node-a", "data", "cat /data/file")).toBe("moved");
    await free("data");
    await docker("node-a", "volume", "rm", "data");
    expect(await docker("node-a", "volume", "ls", "-q")).toBe("");
    await expectClean(cluster);
  });

  it("dockerd restarted with a container: it gives the volume back, and has it again with the container", async () => {
    await create("node-a", "kept");
    await docker("node-a", "run", "-d", "--name", "two", ...withVolume("node-a", "kept"), "sleep", "1000");
    await docker("node-a", "exec", "two", "sh", "-c", "echo kept > /data/file");
    await daemon("node-a").kill("SIGTERM");
    await free("kept");
    await daemon("node-a").start();
    await docker("node-a", "start", "two");
    expect(await docker("node-a", "exec", "two", "cat", "/data/file")).toBe("kept");
    await docker("node-a", "rm", "-f", "two");
    await free("kept");
    await docker("node-a", "volume", "rm", "kept");
    await expectClean(cluster);
  });

  it("the agent killed: a running container writes on, and one that is being started waits for the agent", async () => {
    await create("node-a", "on");
    await create("node-a", "next");
    await docker("node-a", "run", "-d", "--name", "three", ...withVolume("node-a", "on"), "sleep", "1000");
    await cluster.node("node-a").agent().kill("SIGKILL");
    await docker("node-a", "exec", "three", "sh", "-c", "echo written > /data/file");
    const started = shell("node-a", "next", "echo there > /data/file; cat /data/file");
    await cluster.node("node-a").startAgent();
    expect(await started).toBe("there");
    expect(await docker("node-a", "exec", "three", "cat", "/data/file")).toBe("written");
    // In the middle of the start of one more container, and of the end of one.
    const middle = shell("node-a", "next", "cat /data/file");
    const ended = docker("node-a", "rm", "-f", "three");
    await restartAgent("node-a");
    expect(await middle).toBe("there");
    await ended;
    expect(await shell("node-b", "on", "cat /data/file")).toBe("written");
    for (const volume of ["on", "next"]) {
      await free(volume);
      await docker("node-a", "volume", "rm", volume);
    }
    await expectClean(cluster);
  });

  it("dockerd killed: its containers end with the next one, which gives back or has again what they had", async () => {
    await create("node-a", "crash");
    await docker("node-a", "run", "-d", "--name", "four", ...withVolume("node-a", "crash"), "sleep", "1000");
    await docker("node-a", "exec", "four", "sh", "-c", "echo kept > /data/file");
    await daemon("node-a").kill("SIGKILL");
    expect(await holders("crash")).toEqual(["node-a"]);
    await daemon("node-a").start();
    await docker("node-a", "start", "four");
    expect(await docker("node-a", "exec", "four", "cat", "/data/file")).toBe("kept");
    await docker("node-a", "rm", "-f", "four");
    await free("crash");
    await docker("node-a", "volume", "rm", "crash");
    await expectClean(cluster);
  });

  it("docker-compose: up, down and up again keep the volume, and down -v deletes it", async () => {
    const file = path.join(dir, "compose.yml");
    const volume = { driver: driverOf("node-a"), driver_opts: { plugin, size: "16MiB" } };
    const app = { image, network_mode: "none", command: ["sleep", "1000"], volumes: ["data:/data"] };
    await writeFile(file, JSON.stringify({ version: "3.7", services: { app }, volumes: { data: volume } }));
    const compose = async (...args: readonly string[]): Promise<string> => {
      const options = ["-H", daemon("node-a").address, "-p", "shop", "-f", file, "--no-ansi"];
      return (await promisify(execFile)("docker-compose", [...options, ...args])).stdout.trim();
    };
    await compose("up", "-d");
    await compose("exec", "-T", "app", "sh", "-c", "echo kept > /data/file");
    await compose("down");
    await free("shop_data");
    await compose("up", "-d");
    expect(await compose("exec", "-T", "app", "cat", "/data/file")).toBe("kept");
    await compose("down", "-v");
    await expectClean(cluster);
  });

  it("a Swarm of one: the volume of a service goes on from task to task", async () => {
    await docker("node-a", "swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:2377");
    const driver = `volume-driver=${driverOf("node-a")},volume-opt=plugin=${plugin},volume-opt=size=16MiB`;
    const mount = `type=volume,source=tasks,target=/data,${driver}`;
    const script = "echo started >> /data/log; exec sleep 1000";
    const options = ["--no-resolve-image", "--detach", "--restart-condition", "none", "--stop-grace-period", "1s"];
    await docker("node-a", "service", "create", "--name", "s", ...options, "--mount", mount, image, "sh", "-c", script);
    const lines = async (): Promise<number> => {
      const [task] = (await docker("node-a", "ps", "-q", "--filter", "name=s.1")).split("\n");
      if (task === undefined || task === "") return 0;
      return (await docker("node-a", "exec", task, "cat", "/data/log").catch(() => "")).split("\n").filter(Boolean)
        .length;
    };
    await until("the first task", async () => (await lines()) === 1);
    await docker("node-a", "service", "update", "--detach", "--force", "s");
    await until("the second task to find what the first wrote", async () => (await lines()) === 2);
    await docker("node-a", "service", "rm", "s");
    await free("tasks");
    await docker("node-a", "swarm", "leave", "--force");
    // Containers of tasks that have ended hold on to its name.
    for (const one of (await docker("node-a", "ps", "-aq")).split("\n").filter(Boolean))
      await docker("node-a", "rm", "-f", one);
    await docker("node-a", "volume", "rm", "tasks");
    await expectClean(cluster);
  });

  it("other options and a name in capital letters are refused in words", async () => {
    await create("node-a", "same");
    await expect(
      docker("node-a", "volume", "create", "-d", driverOf("node-a"), "-o", "sise=1", "Wrong"),
    ).rejects.toThrow(/INVALID_ARGUMENT.*sise/);
    await docker("node-a", "volume", "rm", "same");
    await expectClean(cluster);
  });
});
