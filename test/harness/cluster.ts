import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel, type GrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { BackendSettings } from "@holdfast/sim-plugin/backend/settings";
import {
  type SimBackendProcess,
  type SimPluginProcess,
  startSimBackend,
  startSimPlugin,
} from "@holdfast/sim-plugin/processes";
import type { TokenMode } from "@holdfast/sim-plugin/role/token-check";
import type { ChannelCredentials } from "nice-grpc";
import { serviceProgram } from "../support/service-program.ts";
import type { UnitName } from "../support/unit-rights.ts";
import { startLocalDriver } from "./local-driver.ts";
import { detachLoopsUnder } from "./loop-files.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";
import { type OtherController, type SecondController, startSecondController } from "./second-controller.ts";
import { until } from "./until.ts";

/** Everything as in production: one controller process, one agent and one node plugin a node, one storage backend. */
export interface ClusterOptions {
  readonly nodes: readonly string[];
  /** redis://… of a server that the caller owns; SQLite when absent. */
  readonly store?: string;
  readonly backend?: BackendSettings;
  /** A second controller on the same store, by this way if told; agents know both. */
  readonly second?: { readonly store?: string };
  /** And a third one. */
  readonly third?: true;
  /**
   * The local driver in place of the simulated plugin, with this in its environment: one process on the controller's socket and on the
   * node's, so there is one node. Everything about the simulated backend and its plugins then throws.
   */
  readonly localDriver?: Readonly<Record<string, string>>;
  /**
   * Starts the only plugin of each node, before its agent: controller and node service on `csi.sock` in that directory. There is no
   * simulated backend and no plugin beside the controller then.
   */
  readonly nodePlugin?: (node: string, pluginDir: string) => Promise<unknown>;
  /** The same, hosted: through the agent's socket for programs on the host, once that runs. */
  readonly hostedPlugin?: (node: string, localAddress: string) => Promise<unknown>;
  /** The nodes on which controller halves of the simulated plugin may run: then there is none beside the controller. */
  readonly controllerHalvesOn?: readonly string[];
  /** The node plugins refuse a publication without a good identity token; asked at each of their starts. */
  readonly verifyTokens?: () => TokenMode;
  /** Bind mounts for real: needs root or a user namespace. */
  readonly realMounts?: boolean;
  /** What one node writes to a volume the others read. */
  readonly sharedData?: true;
  /** Each service has the rights alone that its unit in deploy/systemd leaves it, and the seccomp profile of its container. */
  readonly rightsOfUnits?: true;
  /** The agents and the local driver run in the mount namespace of that process; asked at each of their starts. */
  readonly mountsOf?: () => number;
  readonly otlpEndpoint?: string;
  /** Of the operator `test`, with whose calls the cluster is spoken to, where the controller asks for certificates. */
  readonly operatorCredentials?: ChannelCredentials;
  readonly controllerEnv?: Readonly<Record<string, string>>;
  readonly agentEnv?: Readonly<Record<string, string>> | ((node: string) => Readonly<Record<string, string>>);
  readonly logLevel?: string;
  /** Where things live; a fresh directory of its own when absent. */
  readonly dir?: string;
  /** Where the nodes' mounts appear, in a directory each; beside everything else when absent. */
  readonly mountsDir?: string;
  /** The network namespace of each agent, and the address at which controllers are reached from there. */
  readonly network?: (node: string) => {
    readonly netns: string;
    readonly controllerHost: string;
  };
}

export interface ClusterNode {
  readonly name: string;
  readonly rootDir: string;
  agent(): ManagedProcess;
  plugin(): SimPluginProcess;
  /** Starts the agent (again); extra environment, such as failpoints, holds for this life only. */
  startAgent(env?: Readonly<Record<string, string>>): Promise<ManagedProcess>;
  startPlugin(): Promise<SimPluginProcess>;
  /** Only on a node of `controllerHalvesOn`; its instance has the node's name. The backend takes the same name again for the next process. */
  startControllerHalf(instance?: string): Promise<SimPluginProcess>;
  /** Of the socket for programs on the host. */
  readonly localAddress: string;
  readonly stateDir: string;
}

export interface ClusterClients {
  readonly volumes: GrpcClient<typeof VolumeServiceDefinition>;
  readonly claims: GrpcClient<typeof ClaimServiceDefinition>;
  readonly nodes: GrpcClient<typeof NodeServiceDefinition>;
  readonly snapshots: GrpcClient<typeof SnapshotServiceDefinition>;
  readonly secrets: GrpcClient<typeof SecretServiceDefinition>;
  readonly quotas: GrpcClient<typeof QuotaServiceDefinition>;
  readonly events: GrpcClient<typeof EventServiceDefinition>;
  readonly repair: GrpcClient<typeof RepairServiceDefinition>;
}

export interface Cluster extends ClusterClients {
  readonly grants: GrpcClient<typeof GrantServiceDefinition>;
  readonly dir: string;
  readonly backend: SimBackendProcess;
  /** Of the controller, for schedulers. */
  readonly address: string;
  /** Of the controller, for agents. */
  readonly agentAddress: string;
  node(name: string): ClusterNode;
  /** A node that joins later; its plugin is known on return. */
  addNode(name: string): Promise<ClusterNode>;
  controller(): ManagedProcess;
  startController(env?: Readonly<Record<string, string>>): Promise<ManagedProcess>;
  /** Only with the option of that name. */
  readonly second: SecondController;
  readonly third: SecondController;
  controllerPlugin(): SimPluginProcess;
  startControllerPlugin(): Promise<SimPluginProcess>;
  driver(): ManagedProcess;
  /** Starts the driver (again); extra environment holds for this life only. */
  startDriver(env?: Readonly<Record<string, string>>): Promise<ManagedProcess>;
  /** All that any process of it printed. */
  output(): string;
  stop(): Promise<void>;
}

const ready = (process: ManagedProcess): Promise<Record<string, unknown>> =>
  process.line((line) => line["message"] === "ready", "its line `ready`");

const portOf = (address: unknown): number => Number(String(address).split(":").pop());

const nodeBinary = process.execPath;

/** What a cluster was started without. */
const there = <T>(part: T | undefined, what: string): T => {
  if (part === undefined) throw new Error(`this cluster has no ${what}`);
  return part;
};

const mountPointsUnder = async (dir: string): Promise<readonly string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((point) => point.startsWith(`${dir}/`))
    .reverse();

/** The path of a socket must stay below 108 bytes, so directories have short names. */
export const startCluster = async (options: ClusterOptions): Promise<Cluster> => {
  const dir = options.dir ?? (await mkdtemp(path.join(tmpdir(), "hf-")));
  const channels: GrpcChannel[] = [];
  const stops: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const each of channels) each.close();
    for (const stopOne of stops.splice(0).reverse()) await stopOne();
    // Only after a failed test is there anything left.
    for (const mount of await mountPointsUnder(dir)) spawnSync("umount", ["--lazy", mount]);
    if (options.localDriver !== undefined) await detachLoopsUnder(dir);
    await rm(dir, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    return await startIn(dir, { ...options, channels, stops, stop });
  } catch (error) {
    await stop();
    throw error;
  }
};

interface Started extends ClusterOptions {
  readonly channels: GrpcChannel[];
  readonly stops: (() => Promise<unknown>)[];
  readonly stop: () => Promise<void>;
}

const startIn = async (dir: string, { channels, stops, stop, ...options }: Started): Promise<Cluster> => {
  const every: ManagedProcess[] = [];
  const agentsHost = options.network === undefined ? "127.0.0.1" : "0.0.0.0";
  await mkdir(path.join(dir, "cp"), { recursive: true, mode: 0o700 });

  const simulated = [options.localDriver, options.nodePlugin, options.hostedPlugin].every((own) => own === undefined);
  const backend = simulated ? await startSimBackend({ dir, ...options.backend }) : undefined;
  stops.push(async () => backend?.stop());

  let controllerPlugin: SimPluginProcess | undefined;
  const startControllerPlugin = async (): Promise<SimPluginProcess> => {
    controllerPlugin = await startSimPlugin({
      dir: path.join(dir, "cp"),
      socket: path.join(dir, "cp", "sim.sock"),
      backend: there(backend, "simulated backend").socketPath,
      role: "controller",
      ...(options.second === undefined ? {} : { instance: "first" }),
    });
    return controllerPlugin;
  };
  if (backend !== undefined && options.controllerHalvesOn === undefined) await startControllerPlugin();
  stops.push(async () => controllerPlugin?.stop());

  let controller: ManagedProcess;
  let port = 0;
  let agentPort = 0;
  const inside = (): { readonly mountsOf?: number } =>
    options.mountsOf === undefined ? {} : { mountsOf: options.mountsOf() };
  const rightsOf = (unit: UnitName): { readonly rightsOf?: UnitName } =>
    options.rightsOfUnits === undefined ? {} : { rightsOf: unit };
  const common = {
    HOLDFAST_LOG_LEVEL: options.logLevel ?? "info",
    ...(options.network === undefined ? {} : { HOLDFAST_INSECURE: "1" }),
    ...(options.otlpEndpoint === undefined
      ? {}
      : { HOLDFAST_OTLP_ENDPOINT: options.otlpEndpoint, HOLDFAST_OTLP_PROTOCOL: "http" }),
  };
  let driver: ManagedProcess | undefined;
  const startDriver = async (env: Readonly<Record<string, string>> = {}): Promise<ManagedProcess> => {
    const [node, ...others] = options.nodes;
    if (node === undefined || others.length > 0) throw new Error("a cluster on the local driver has one node");
    const pluginDir = path.join(dir, `${node}-p`);
    await mkdir(pluginDir, { recursive: true, mode: 0o700 });
    driver = await startLocalDriver({
      sockets: [path.join(dir, "cp", "local.sock"), path.join(pluginDir, "local.sock")],
      stateDir: path.join(dir, "local"),
      nodeId: node,
      ...inside(),
      ...rightsOf("local-driver"),
      env: { ...common, ...options.localDriver, ...env },
    });
    every.push(driver);
    return driver;
  };
  stops.push(async () => driver?.kill("SIGTERM"));
  if (options.localDriver !== undefined) await startDriver();

  const controllerCommand = [nodeBinary, "--disable-sigusr1", serviceProgram("controller")] as const;
  const store = options.store ?? `sqlite://${path.join(dir, "store.db")}`;
  const startController = async (env: Readonly<Record<string, string>> = {}): Promise<ManagedProcess> => {
    controller = startProcess({
      name: "controller",
      command: controllerCommand,
      ...rightsOf("controller"),
      env: {
        ...common,
        HOLDFAST_LISTEN: `127.0.0.1:${port}`,
        HOLDFAST_AGENT_LISTEN: `${agentsHost}:${agentPort}`,
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STORE: store,
        HOLDFAST_STATE_DIR: path.join(dir, "controller"),
        HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
        ...options.controllerEnv,
        ...env,
      },
    });
    every.push(controller);
    const line = await ready(controller);
    port = portOf(line["address"]);
    agentPort = portOf(line["agents"]);
    return controller;
  };
  stops.push(async () => controller?.kill("SIGTERM"));
  await startController();
  const startOther = (name: OtherController, url = store): Promise<SecondController> =>
    startSecondController({
      dir,
      name,
      command: controllerCommand,
      ...(backend === undefined ? {} : { backend }),
      env: {
        ...common,
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STORE: url,
        ...options.controllerEnv,
      },
      withPlugin: simulated && options.controllerHalvesOn === undefined,
      started: (process) => every.push(process),
    });
  const second = options.second && (await startOther("second", options.second.store));
  stops.push(async () => second?.stop());
  const third = options.third && (await startOther("third"));
  stops.push(async () => third?.stop());

  const makeNode = async (name: string): Promise<ClusterNode> => {
    const rootDir = path.join(options.mountsDir ?? dir, name);
    const stateDir = path.join(dir, `${name}-state`);
    const pluginDir = path.join(dir, `${name}-p`);
    for (const each of [rootDir, pluginDir]) await mkdir(each, { recursive: true, mode: 0o700 });
    const net = options.network?.(name);
    let plugin: SimPluginProcess | undefined;
    const startPlugin = async (): Promise<SimPluginProcess> => {
      plugin = await startSimPlugin({
        dir: pluginDir,
        socket: path.join(pluginDir, "sim.sock"),
        backend: there(backend, "simulated backend").socketPath,
        role: "node",
        node: name,
        dataDir: path.join(dir, `${options.sharedData === true ? "shared" : name}-data`),
        ...(options.realMounts === undefined ? {} : { realMounts: options.realMounts }),
        ...(options.verifyTokens === undefined ? {} : { verifyTokens: options.verifyTokens() }),
      });
      return plugin;
    };
    if (backend !== undefined) await startPlugin();
    const describe = async (socket: string, role: string, id?: string): Promise<void> => {
      const plugins = [{ socket, role, id }];
      await writeFile(path.join(pluginDir, "plugins.json"), JSON.stringify({ plugins }), { mode: 0o600 });
    };
    if (options.nodePlugin !== undefined) {
      await options.nodePlugin(name, pluginDir);
      await describe("csi.sock", "monolith");
    }
    let half: SimPluginProcess | undefined;
    const startControllerHalf = async (instance = name): Promise<SimPluginProcess> => {
      half = await startSimPlugin({
        dir: pluginDir,
        socket: path.join(pluginDir, "half.sock"),
        backend: there(backend, "simulated backend").socketPath,
        role: "controller",
        instance,
      });
      return half;
    };
    if (options.controllerHalvesOn?.includes(name) === true)
      // The name is bound to the socket of the node half already.
      await describe("half.sock", "controller", "sim.holdfast.dev");
    let agent: ManagedProcess;
    const localAddress = `unix://${path.join(dir, `${name}.sock`)}`;
    const startAgent = async (env: Readonly<Record<string, string>> = {}): Promise<ManagedProcess> => {
      agent = startProcess({
        name,
        command: [nodeBinary, "--disable-sigusr1", serviceProgram("node-agent")],
        ...(net === undefined ? {} : { netns: net.netns }),
        ...inside(),
        ...rightsOf("node-agent"),
        env: {
          ...common,
          HOLDFAST_NODE: name,
          HOLDFAST_LOCAL_LISTEN: localAddress,
          HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
          HOLDFAST_CONTROLLERS: [
            `${net?.controllerHost ?? "127.0.0.1"}:${agentPort}`,
            ...[second, third].flatMap((one) => one?.agentAddress ?? []),
          ].join(),
          HOLDFAST_STATE_DIR: stateDir,
          HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
          // Hosts that share a machine share its DMI: nothing tells a boot of one from a clone, unless a test says so.
          HOLDFAST_HOST_IDENTITY: "none",
          HOLDFAST_ROOT_DIR: rootDir,
          HOLDFAST_PLUGIN_DIR: pluginDir,
          HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, `${name}-h`),
          ...(typeof options.agentEnv === "function" ? options.agentEnv(name) : options.agentEnv),
          ...env,
        },
      });
      every.push(agent);
      await ready(agent);
      return agent;
    };
    stops.push(
      async () => agent?.kill("SIGTERM"),
      async () => plugin?.stop(),
      async () => half?.stop(),
    );
    await startAgent();
    await options.hostedPlugin?.(name, localAddress);
    return {
      name,
      rootDir,
      stateDir,
      localAddress,
      agent: () => agent,
      plugin: () => there(plugin, "simulated plugin"),
      startAgent,
      startPlugin,
      startControllerHalf,
    };
  };
  const nodes = new Map<string, ClusterNode>();
  for (const name of options.nodes) nodes.set(name, await makeNode(name));

  const address = `127.0.0.1:${port}`;
  const channel = createGrpcChannel(address, { credentials: options.operatorCredentials });
  channels.push(channel);
  const log = createMemoryLogger();
  const identity = { role: "operator", name: "test" } as const;
  const client = { log, identity, defaultDeadlineMs: 60_000 };
  const nodeClient = createGrpcClient(NodeServiceDefinition, channel, client);
  const pluginKnown = (name: string): Promise<unknown> =>
    until(`the plugin of ${name} to be known`, async () => {
      const { node } = await nodeClient.getNode({ name });
      return node?.plugins.some(({ health }) => health === PluginHealth.PLUGIN_HEALTH_HEALTHY);
    });
  for (const name of options.nodes) await pluginKnown(name);
  return {
    dir,
    get backend() {
      return there(backend, "simulated backend");
    },
    address,
    agentAddress: `127.0.0.1:${agentPort}`,
    volumes: createGrpcClient(VolumeServiceDefinition, channel, client),
    secrets: createGrpcClient(SecretServiceDefinition, channel, client),
    quotas: createGrpcClient(QuotaServiceDefinition, channel, client),
    events: createGrpcClient(EventServiceDefinition, channel, client),
    repair: createGrpcClient(RepairServiceDefinition, channel, client),
    claims: createGrpcClient(ClaimServiceDefinition, channel, client),
    nodes: nodeClient,
    grants: createGrpcClient(GrantServiceDefinition, channel, client),
    snapshots: createGrpcClient(SnapshotServiceDefinition, channel, client),
    node: (name) => {
      const found = nodes.get(name);
      if (found === undefined) throw new Error(`the cluster has no node ${name}`);
      return found;
    },
    async addNode(name) {
      const made = await makeNode(name);
      nodes.set(name, made);
      await pluginKnown(name);
      return made;
    },
    controller: () => controller,
    startController,
    get second() {
      return there(second, "second controller");
    },
    get third() {
      return there(third, "third controller");
    },
    controllerPlugin: () => there(controllerPlugin, "simulated plugin"),
    startControllerPlugin,
    driver: () => there(driver, "local driver"),
    startDriver,
    output: () => every.map((p) => `--- ${p.name} (${p.pid})\n${p.output()}`).join("\n"),
    stop,
  };
};
