/**
 * A dockerd of the test's own: sockets and processes in a folder, ended by its pid. Images are kept in .cache/containers: a second run builds what
 * has changed.
 *
 * To build it uses the machine's network and has no bridge. To run it is in a network namespace without a way out, where the addresses of
 * its bridges exist for it alone, and in a mount namespace in which /var/lib/holdfast is a shared mount, as on a host with systemd; that
 * namespace is `the host` of the containers, and ends with it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { appendFile, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { until } from "../harness/until.ts";
import { root, runToEnd } from "../support/run-go.ts";

const minute = 60_000;
export const hostDirectory = "/var/lib/holdfast";
/** Between runs. */
export const kept = path.join(root, ".cache/containers");
const project = "hf-containers";

export interface Engine {
  docker(args: readonly string[], input?: string): Promise<string>;
  compose(args: readonly string[], input?: string): Promise<string>;
  /** A program of this machine that calls docker. */
  program(words: readonly string[]): Promise<string>;
  /** A shell of the host of the containers. */
  onHost(script: string): Promise<string>;
  stop(): Promise<void>;
}

const programs = "/usr/sbin:/usr/bin:/sbin:/bin";

/** Debian's own. False, with the reason on the console: they are not here and cannot be installed. */
export const engineInstalled = async (): Promise<boolean> => {
  const needed = ["/usr/sbin/dockerd", "/usr/bin/docker-compose", "/usr/sbin/debootstrap"];
  const missing = () => needed.filter((file) => !existsSync(file));
  if (missing().length > 0 && process.getuid?.() === 0 && existsSync("/usr/bin/apt-get")) {
    const packages = ["docker.io", "docker-compose", "debootstrap"];
    await runToEnd("apt-get", ["update", "-qq"], 5 * minute);
    await runToEnd("apt-get", ["install", "-qq", "-y", "--no-install-recommends", ...packages], 10 * minute);
  }
  if (missing().length === 0) return true;
  console.warn(
    `SKIPPED: images and compose file need a container engine, and ${missing().join(", ")} cannot be installed`,
  );
  return false;
};

const hostScript = (dir: string, command: string): string =>
  [
    "set -e",
    "ip link set lo up",
    `mount --bind ${dir}/host ${hostDirectory}`,
    `mount --make-rshared ${hostDirectory}`,
    `exec ${command}`,
  ].join("\n");

export const startEngine = async (dir: string, purpose: "build" | "run"): Promise<Engine> => {
  const folder = path.join(dir, "engine");
  await mkdir(path.join(dir, "host"), { recursive: true });
  await mkdir(folder, { recursive: true });
  await mkdir(kept, { recursive: true });
  const runc = path.join(import.meta.dirname, "runc-without-sys-resource.sh");
  const bounded = !(await canHaveSysResource());
  const config = bounded ? { runtimes: { bounded: { path: runc } }, "default-runtime": "bounded" } : {};
  await writeFile(path.join(folder, "daemon.json"), JSON.stringify(config));
  const socket = `unix://${folder}/sock`;
  const command = [
    "dockerd",
    ...[
      "--config-file",
      `${folder}/daemon.json`,
      "--data-root",
      path.join(kept, "data"),
      "--exec-root",
      `${folder}/exec`,
    ],
    ...["-p", `${folder}/pid`, "-H", socket],
    ...(purpose === "build" ? ["--bridge=none", "--iptables=false"] : []),
  ];
  const madeDirectory = purpose === "run" && (await mkdir(hostDirectory, { recursive: true })) !== undefined;
  const started =
    purpose === "build"
      ? command
      : ["unshare", "--mount", "--net", "--propagation=private", "sh", "-c", hostScript(dir, command.join(" "))];
  // Its containers must not outlive a test that was killed.
  const daemon = spawn("setpriv", ["--pdeathsig", "TERM", "nice", "-n", "15", ...started], {
    env: { PATH: programs },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log = path.join(dir, `dockerd-${purpose}.log`);
  for (const stream of [daemon.stdout, daemon.stderr])
    stream.on("data", (text: Buffer) => void appendFile(log, text).catch(() => undefined));

  const env = { PATH: programs, DOCKER_HOST: socket, DOCKER_BUILDKIT: "1", COMPOSE_PROJECT_NAME: project, HOME: dir };
  const run = async (words: readonly string[], input?: string): Promise<string> => {
    const [file = "", ...args] = words;
    const { code, stdout, output } = await runToEnd(file, args, 20 * minute, {
      env,
      ...(input === undefined ? {} : { input }),
    });
    if (code !== 0) throw new Error(`${words.join(" ")} ended with ${code}:\n${output}`);
    return stdout.trim();
  };
  await until(
    () => `dockerd, see ${log}`,
    async () => {
      if (daemon.exitCode !== null)
        throw new Error(`dockerd ended with ${daemon.exitCode}: ${await readFile(log, "utf8")}`);
      return await run(["docker", "version"]).then(
        () => true,
        () => false,
      );
    },
    2 * minute,
  );
  return {
    docker: (args, input) => run(["docker", ...args], input),
    compose: (args, input) => run(["docker-compose", ...args], input),
    program: (words) => run(words),
    onHost: (script) => run(["nsenter", `--target=${daemon.pid}`, "--mount", "--net", "sh", "-c", script]),
    async stop() {
      const left = (await run(["docker", "ps", "-aq"])).split("\n").filter((id) => id !== "");
      if (left.length > 0) await run(["docker", "rm", "-f", ...left]);
      for (const kind of ["volume", "network", "image"]) await run(["docker", kind, "prune", "-f"]);
      await ended(daemon);
      if (madeDirectory) await rmdir(hostDirectory);
    },
  };
};

const ended = async (daemon: ChildProcess): Promise<void> => {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  daemon.kill("SIGTERM");
  await once(daemon, "exit");
};

const canHaveSysResource = async (): Promise<boolean> => {
  const bounding = /^CapBnd:\s*([0-9a-f]+)$/m.exec(await readFile("/proc/self/status", "utf8"))?.[1] ?? "0";
  return (BigInt(`0x${bounding}`) & (1n << 24n)) !== 0n;
};
