import { mkdir } from "node:fs/promises";
import path from "node:path";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel, type GrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type SimBackendProcess, type SimPluginProcess, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { type ManagedProcess, startProcess } from "./managed-process.ts";

export type OtherController = "second" | "third";

/** Another controller of a cluster, on the same store, with directories and a plugin of its own beside it. */
export interface SecondController {
  /** For schedulers, and for agents. */
  readonly address: string;
  readonly agentAddress: string;
  process(): ManagedProcess;
  /** Starts it (again), on the same state directory and addresses; extra environment holds for this life only. */
  start(env?: Readonly<Record<string, string>>): Promise<ManagedProcess>;
  plugin(): SimPluginProcess;
  startPlugin(): Promise<SimPluginProcess>;
  readonly clients: {
    readonly volumes: GrpcClient<typeof VolumeServiceDefinition>;
    readonly claims: GrpcClient<typeof ClaimServiceDefinition>;
    readonly snapshots: GrpcClient<typeof SnapshotServiceDefinition>;
    readonly repair: GrpcClient<typeof RepairServiceDefinition>;
  };
  stop(): Promise<void>;
}

export interface SecondControllerOptions {
  readonly dir: string;
  /** Its id, and its plugin's name in the record. */
  readonly name: OtherController;
  readonly command: readonly [string, ...string[]];
  /** All of its environment but what differs between two controllers. */
  readonly env: Readonly<Record<string, string>>;
  readonly backend?: SimBackendProcess;
  /** Its own replica of the plugin runs beside it. */
  readonly withPlugin: boolean;
  readonly started: (process: ManagedProcess) => void;
}

export const startSecondController = async (options: SecondControllerOptions): Promise<SecondController> => {
  const { dir, name, command, env, backend, withPlugin, started } = options;
  const pluginDir = path.join(dir, `cp-${name}`);
  await mkdir(pluginDir, { recursive: true, mode: 0o700 });
  let plugin: SimPluginProcess | undefined;
  const startPlugin = async (): Promise<SimPluginProcess> => {
    if (!withPlugin || backend === undefined) throw new Error("the plugin of this cluster runs on its nodes");
    const socket = path.join(pluginDir, "sim.sock");
    plugin = await startSimPlugin({
      dir: pluginDir,
      socket,
      backend: backend.socketPath,
      role: "controller",
      instance: name,
    });
    return plugin;
  };
  if (withPlugin) await startPlugin();

  let process: ManagedProcess;
  const at = { address: "127.0.0.1:0", agents: "127.0.0.1:0" };
  const start = async (own: Readonly<Record<string, string>> = {}): Promise<ManagedProcess> => {
    process = startProcess({
      name: `${name} controller`,
      command,
      env: {
        ...env,
        HOLDFAST_LISTEN: at.address,
        HOLDFAST_AGENT_LISTEN: at.agents,
        HOLDFAST_STATE_DIR: path.join(dir, `controller-${name}`),
        HOLDFAST_PLUGIN_DIR: pluginDir,
        HOLDFAST_ID: name,
        ...own,
      },
    });
    started(process);
    const line = await process.line((each) => each["message"] === "ready", "its line `ready`");
    at.address = String(line["address"]);
    at.agents = String(line["agents"]);
    return process;
  };
  await start();
  const channel: GrpcChannel = createGrpcChannel(at.address);
  const client = {
    log: createMemoryLogger(),
    identity: { role: "operator", name: "test" },
    defaultDeadlineMs: 60_000,
  } as const;
  return {
    address: at.address,
    agentAddress: at.agents,
    process: () => process,
    start,
    plugin: () => {
      if (plugin === undefined) throw new Error("the plugin of this cluster runs on its nodes");
      return plugin;
    },
    startPlugin,
    clients: {
      volumes: createGrpcClient(VolumeServiceDefinition, channel, client),
      claims: createGrpcClient(ClaimServiceDefinition, channel, client),
      snapshots: createGrpcClient(SnapshotServiceDefinition, channel, client),
      repair: createGrpcClient(RepairServiceDefinition, channel, {
        ...client,
        identity: { role: "operator", name: "test" },
      }),
    },
    stop: async () => {
      channel.close();
      await process.kill("SIGTERM");
      await plugin?.stop();
    },
  };
};
