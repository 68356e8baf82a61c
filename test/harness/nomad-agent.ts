/**
 * A real Nomad, 1.10 or later: server and client in one agent, on loopback addresses, with its state in one directory, which a restart finds
 * again: `-dev` would keep none. The program is copied there, so that all it starts names the directory.
 */
import { execFile } from "node:child_process";
import { constants, copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { freePort } from "../support/free-port.ts";
import { endUnder } from "./end-under.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";
import { until } from "./until.ts";

export interface NomadAgent {
  readonly volumesDir: string;
  /** The command line; rejects with what it printed. */
  run(args: readonly string[], cwd?: string): Promise<string>;
  /** Of its HTTP API. */
  get<T>(place: string): Promise<T>;
  /** Until it is the leader, its client is ready and has the plugin. */
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Ends it with its tasks, and takes away what it mounted. */
  end(): Promise<void>;
}

interface Node {
  readonly Status: string;
  readonly Attributes: Readonly<Record<string, string>>;
}

const plugin = path.resolve(import.meta.dirname, "../../deploy/nomad/holdfast");

export const createNomadAgent = async (binary: string, dir: string, socket: string): Promise<NomadAgent> => {
  const at = (name: string): string => path.join(dir, name);
  const [program, config, pluginDir, volumesDir] = [at("nomad"), at("nomad.hcl"), at("plugins"), at("volumes")];
  for (const one of [pluginDir, volumesDir]) await mkdir(one, { recursive: true });
  await copyFile(binary, program, constants.COPYFILE_FICLONE);
  await copyFile(plugin, path.join(pluginDir, "holdfast"));
  await writeFile(path.join(pluginDir, "holdfast.conf"), `socket=${socket}\n`);
  const [http, rpc, serf] = [await freePort(), await freePort(), await freePort()];
  await writeFile(config, settings({ http, rpc, serf, dataDir: at("data"), pluginDir, volumesDir }));
  const address = `http://127.0.0.1:${http}`;
  const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
  let process: ManagedProcess | undefined;

  const get = async <T>(place: string): Promise<T> => {
    const response = await fetch(`${address}${place}`);
    if (!response.ok) throw new Error(`${place}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const isReady = async (): Promise<boolean> => {
    if ((await get<string>("/v1/status/leader")) === "") return false;
    const [first] = await get<readonly { readonly ID: string }[]>("/v1/nodes");
    if (first === undefined) return false;
    const node = await get<Node>(`/v1/node/${first.ID}`);
    return node.Status === "ready" && node.Attributes["plugins.host_volume.holdfast.version"] !== undefined;
  };
  return {
    volumesDir,
    get,
    async run(args, cwd = dir) {
      const env = { PATH, NOMAD_ADDR: address, NOMAD_CLI_NO_COLOR: "1", HOME: dir } as unknown as NodeJS.ProcessEnv;
      const ended = await promisify(execFile)(program, args, { cwd, env }).catch(
        (error: { stdout?: string; stderr?: string; message: string }) => {
          throw new Error(`nomad ${args.join(" ")}: ${error.stdout ?? ""}${error.stderr ?? error.message}`);
        },
      );
      return ended.stdout.trim();
    },
    async start() {
      const started = startProcess({ name: "nomad", command: [program, "agent", "-config", config], env: { PATH } });
      process = started;
      await until("nomad", () => isReady().catch(() => false), 90_000).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${started.output().slice(-4_000)}`);
      });
    },
    kill: async () => void (await process?.kill("SIGKILL")),
    end: () => endUnder(dir),
  };
};

interface Places {
  readonly http: number;
  readonly rpc: number;
  readonly serf: number;
  readonly dataDir: string;
  readonly pluginDir: string;
  readonly volumesDir: string;
}

/** No fingerprint that asks the metadata of a cloud, and no look for newer versions: nothing leaves the host. */
const settings = ({ http, rpc, serf, dataDir, pluginDir, volumesDir }: Places): string => `
name                 = "nomad-a"
data_dir             = "${dataDir}"
bind_addr            = "127.0.0.1"
log_level            = "DEBUG"
disable_update_check = true

ports {
  http = ${http}
  rpc  = ${rpc}
  serf = ${serf}
}

advertise {
  http = "127.0.0.1:${http}"
  rpc  = "127.0.0.1:${rpc}"
  serf = "127.0.0.1:${serf}"
}

server {
  enabled          = true
  bootstrap_expect = 1
}

client {
  enabled                = true
  servers                = ["127.0.0.1:${rpc}"]
  network_interface      = "lo"
  host_volume_plugin_dir = "${pluginDir}"
  host_volumes_dir       = "${volumesDir}"

  options = {
    "driver.allowlist"     = "raw_exec"
    "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce,consul,vault"
  }
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}

consul {
  auto_advertise   = false
  client_auto_join = false
  server_auto_join = false
}
`;
