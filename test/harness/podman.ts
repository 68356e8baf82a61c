/**
 * A podman of its own: images, containers, locks and what it keeps until the next boot in one directory. Debian's podman with runc.
 * Its limits are lowered, as a test machine may lack CAP_SYS_RESOURCE.
 */
import { execFile, spawnSync } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { packBusybox } from "./container-engine.ts";
import { endUnder, killUnder, unmountUnder } from "./end-under.ts";

const execute = promisify(execFile);

/** What is missing for one; empty when nothing is. */
export const missingForPodman = (): readonly string[] =>
  ["podman", "conmon", "/usr/sbin/runc", "/usr/bin/busybox"].filter((it) => spawnSync("which", [it]).status !== 0);

export const image = "tiny";

export interface Podman {
  /** Made by the first command after each boot, and changed by none. */
  readonly aliveFile: string;
  /** The command line; rejects with what it printed. */
  run(...args: readonly string[]): Promise<string>;
  /** No process is left that watches a container, and none of the containers: nothing tells podman. */
  killContainers(): Promise<void>;
  /** As killed, and all that is in /run is gone. */
  boot(): Promise<void>;
  end(): Promise<void>;
}

/** `driver` is the name that it knows the plugin at `socket` by. */
export const startPodman = async (dir: string, driver: string, socket: string): Promise<Podman> => {
  const at = (name: string): string => path.join(dir, name);
  await mkdir(dir, { recursive: true });
  await writeFile(
    at("containers.conf"),
    `[containers]
netns = "none"
log_driver = "k8s-file"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "runc"
volume_plugin_timeout = 120
[engine.volume_plugins]
${driver} = "${socket}"
`,
  );
  const places = ["--root", at("data"), "--runroot", at("run"), "--tmpdir", at("tmp"), "--storage-driver", "vfs"];
  const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: dir, CONTAINERS_CONF: at("containers.conf") };
  const run: Podman["run"] = async (...args) => {
    const ended = await execute("/usr/bin/podman", [...places, ...args], { env }).catch(
      (error: { stderr?: string; message: string }) => {
        throw new Error(`podman ${args.join(" ")}: ${error.stderr ?? error.message}`);
      },
    );
    return ended.stdout.trim();
  };
  await run("import", await packBusybox(at("root")), image);
  return {
    run,
    aliveFile: at("tmp/alive"),
    killContainers: async () => void (await killUnder(dir)),
    async boot() {
      const ids = (await run("ps", "-aq", "--no-trunc")).split("\n").filter((id) => id !== "");
      await killUnder(dir);
      for (const id of ids) spawnSync("/usr/sbin/runc", ["delete", "--force", id]);
      await unmountUnder(dir);
      for (const name of ["run", "tmp"]) await rm(at(name), { recursive: true, force: true });
    },
    async end() {
      await run("rm", "--all", "--force", "--time", "0").catch(() => undefined);
      await endUnder(dir);
    },
  };
};
