/** A second agent under the name of a node, as on a clone of its machine: with mounts and a plugin of its own. */
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { startSimPlugin } from "@holdfast/sim-plugin/processes";
import { serviceProgram } from "../support/service-program.ts";
import type { Cluster, ClusterNode } from "./cluster.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";
import { plugin as pluginName } from "./scenario.ts";

export interface NodeCopy {
  readonly agent: ManagedProcess;
  /** What the plugin of the copy was asked to change. */
  changes(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/** What the backend calls the machine of the copy. */
const machine = "copy";

export const startNodeCopy = async (
  cluster: Cluster,
  node: ClusterNode,
  of: {
    readonly stateDir: string;
    readonly machineIdFile: string;
    readonly mountsOf: number;
    /** A controller half of the plugin runs on it too. */
    readonly controllerHalf?: true;
  },
): Promise<NodeCopy> => {
  const dir = path.join(cluster.dir, machine);
  const pluginDir = path.join(dir, "p");
  await mkdir(pluginDir, { recursive: true, mode: 0o700 });
  const plugin = await startSimPlugin({
    dir: pluginDir,
    socket: path.join(pluginDir, "sim.sock"),
    backend: cluster.backend.socketPath,
    role: "node",
    node: machine,
    dataDir: path.join(dir, "data"),
  });
  const half = of.controllerHalf
    ? await startSimPlugin({
        dir: pluginDir,
        socket: path.join(pluginDir, "half.sock"),
        backend: cluster.backend.socketPath,
        role: "controller",
        instance: machine,
      })
    : undefined;
  const plugins = half === undefined ? [] : [{ socket: "half.sock", role: "controller", id: pluginName }];
  await writeFile(path.join(pluginDir, "plugins.json"), JSON.stringify({ plugins }), { mode: 0o600 });
  const agent = startProcess({
    name: "copy",
    command: [process.execPath, serviceProgram("node-agent")],
    mountsOf: of.mountsOf,
    env: {
      HOLDFAST_NODE: node.name,
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_CONTROLLERS: cluster.agentAddress,
      HOLDFAST_STATE_DIR: of.stateDir,
      HOLDFAST_MACHINE_ID_FILE: of.machineIdFile,
      HOLDFAST_HOST_IDENTITY: "none",
      HOLDFAST_ROOT_DIR: node.rootDir,
      HOLDFAST_PLUGIN_DIR: pluginDir,
      HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, "h"),
    },
  });
  return {
    agent,
    async changes() {
      const calls = await cluster.backend.client.record();
      return calls
        .filter(({ node: at, method }) => at === machine && /^Node(Un)?(Stage|Publish)/.test(method))
        .map(({ method }) => method);
    },
    async stop() {
      if (agent.running()) await agent.kill("SIGKILL");
      await half?.stop();
      await plugin.stop();
    },
  };
};
