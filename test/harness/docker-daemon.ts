/**
 * A real dockerd of its own: data, sockets and pid file in one directory, no bridge, a network namespace of its own. Debian's docker.io.
 * CAP_SYS_RESOURCE is taken out of what a container asks for, as the bounding set of a test machine may lack it.
 */
import { execFile, spawnSync } from "node:child_process";
import { mkdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { packBusybox } from "./container-engine.ts";
import { endUnder } from "./end-under.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";
import { until } from "./until.ts";

const docker = "/usr/bin/docker";
const execute = promisify(execFile);
const onceFound = (program: string): boolean => spawnSync("which", [program]).status === 0;

/** What is missing for one; empty when nothing is. */
export const missingForDocker = (): readonly string[] =>
  ["/usr/sbin/dockerd", docker, "/usr/sbin/runc", "/usr/bin/busybox", "docker-compose", "ip", "unshare"].filter(
    (it) => !onceFound(it),
  );

export const image = "tiny";

export interface DockerDaemon {
  readonly pidFile: string;
  readonly address: string;
  /** The command line; rejects with what it printed. */
  run(...args: readonly string[]): Promise<string>;
  start(): Promise<void>;
  kill(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Ends it and takes away what it mounted. */
  end(): Promise<void>;
}

const runtime = `#!/bin/sh
p=
for a in "$@"; do
  f=
  case "$p" in --bundle) f=$a/config.json;; --process|-p) f=$a;; esac
  [ -n "$f" ] && [ -f "$f" ] && sed -i 's/"CAP_SYS_RESOURCE",//g; s/,"CAP_SYS_RESOURCE"//g' "$f"
  p=$a
done
exec /usr/sbin/runc "$@"
`;

export const startDockerDaemon = async (dir: string): Promise<DockerDaemon> => {
  await mkdir(dir, { recursive: true });
  const at = (name: string): string => path.join(dir, name);
  const address = `unix://${at("sock")}`;
  const pidFile = at("pid");
  await writeFile(at("runc"), runtime, { mode: 0o755 });
  const runtimes = { nosr: { path: at("runc") } };
  await writeFile(at("daemon.json"), JSON.stringify({ runtimes, "default-runtime": "nosr", "shutdown-timeout": 5 }));
  const places = [
    "--containerd",
    at("engine.sock"),
    "--data-root",
    at("data"),
    "--exec-root",
    at("exec"),
    "-p",
    pidFile,
    "-H",
    address,
  ];
  const options = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--config-file", at("daemon.json")];
  const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
  // Of its own, as on a host: it outlives a dockerd that is killed.
  const engine = ["--root", at("engine"), "--state", at("state"), "--address", at("engine.sock")];
  startProcess({ name: "containerd", command: ["/usr/bin/containerd", ...engine], env: { PATH } });
  await until("containerd", () => stat(at("engine.sock")).catch(() => undefined));
  let process: ManagedProcess | undefined;

  const run: DockerDaemon["run"] = async (...args) => {
    const ended = await execute(docker, ["-H", address, ...args]).catch(
      (error: { stderr?: string; message: string }) => {
        throw new Error(`docker ${args.join(" ")}: ${error.stderr ?? error.message}`);
      },
    );
    return ended.stdout.trim();
  };
  const daemon: DockerDaemon = {
    ...{ pidFile, address, run },
    async start() {
      // Swarm wants an address.
      const script = 'ip link set lo up && exec /usr/sbin/dockerd "$@"';
      const command = ["unshare", "--net", "sh", "-c", script, "dockerd", ...places, ...options] as const;
      process = startProcess({ name: "dockerd", command, env: { PATH } });
      const started = process;
      await until("dockerd", () => run("version").catch(() => undefined)).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${started.output().slice(-4_000)}`);
      });
    },
    kill: async (signal) => void (await process?.kill(signal)),
    async end() {
      if (process?.running() === true) await process.kill("SIGTERM");
      await endUnder(dir);
    },
  };
  await daemon.start();
  await run("import", await packBusybox(at("root")), image);
  return daemon;
};
