/**
 * What a node's runtime does to host a CSI plugin: ask the agent for its directories, start the plugin with them, watch over it, restart
 * it when the agent asks, and stop it without leaving a call behind. Containers would get `mounts`; here the plugin is a plain process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { PluginHostServiceDefinition, SupervisionEvent } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";

export interface HostedPluginOptions {
  /** The agent's socket for programs of its host: HOLDFAST_LOCAL_LISTEN. */
  readonly agent: string;
  /** As GetPluginInfo says it. */
  readonly plugin: string;
  /** The runtime's id of this run. */
  readonly allocation: string;
  readonly command: readonly [program: string, ...args: readonly string[]];
  /** How the plugin is told where its socket is; most read CSI_ENDPOINT, which is set anyway. */
  environment(socket: string): Readonly<Record<string, string>>;
  readonly say: (line: string) => void;
  /** What the plugin prints. */
  readonly output: (text: string) => void;
}

export interface HostedPlugin {
  /** Resolves when the agent has registered it. */
  readonly ready: Promise<void>;
  /** The process of now. */
  pid(): number | undefined;
  stop(): Promise<void>;
  /** The runtime ends, and its processes with it. The agent keeps what is prepared. */
  close(): Promise<void>;
}

const restartPauseMs = 200;

export const hostPlugin = async (options: HostedPluginOptions): Promise<HostedPlugin> => {
  const { plugin, allocation, say, output } = options;
  const channel = createGrpcChannel(options.agent, { ownConnection: true });
  const identity = { role: "local", name: "runtime" } as const;
  const agent = createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger(), identity });
  const prepared = await agent.preparePlugin({
    plugin,
    allocation,
    role: PluginRole.PLUGIN_ROLE_NODE,
    hostFilesystem: true,
  });

  const stopping = new AbortController();
  let child: ChildProcess | undefined;
  const run = (): void => {
    const [program, ...args] = options.command;
    const env = { ...process.env, ...prepared.environment, ...options.environment(prepared.socket) };
    const started = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    child = started;
    for (const stream of [started.stdout, started.stderr]) stream.on("data", (part: Buffer) => output(part.toString()));
    say(`${plugin}: process ${started.pid} on ${prepared.socket}`);
    // A death is seen here first; what hangs, or never becomes ready, the agent tells below.
    started.once("exit", (code, signal) => {
      if (stopping.signal.aborted) return;
      say(`${plugin}: process ${started.pid} ended with ${signal ?? code}`);
      setTimeout(() => stopping.signal.aborted || run(), restartPauseMs);
    });
  };
  const kill = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  };

  const registered = Promise.withResolvers<void>();
  const supervise = async (): Promise<void> => {
    for await (const { event, message } of agent.supervisePlugin({ allocation, plugin }, { signal: stopping.signal })) {
      if (event === SupervisionEvent.SUPERVISION_EVENT_READY) registered.resolve();
      if (event === SupervisionEvent.SUPERVISION_EVENT_UNHEALTHY) say(`${plugin}: unhealthy: ${message}`);
      if (event === SupervisionEvent.SUPERVISION_EVENT_HEALTHY) say(`${plugin}: healthy again`);
      if (event === SupervisionEvent.SUPERVISION_EVENT_STOPPED) return;
      if (event !== SupervisionEvent.SUPERVISION_EVENT_RESTART_WANTED) continue;
      say(`${plugin}: the agent wants it restarted: ${message}`);
      await kill();
    }
  };

  run();
  const supervision = supervise().catch((error: unknown) => {
    if (!stopping.signal.aborted) registered.reject(error);
  });
  const close = async (): Promise<void> => {
    stopping.abort();
    await kill();
    await supervision;
    channel.close();
  };
  return {
    ready: registered.promise,
    pid: () => child?.pid,
    close,
    async stop() {
      // The agent lets its calls end first, and refuses while volumes here need the plugin.
      for (let stopped = false; !stopped; )
        ({ stopped } = await agent.stopPlugin({ allocation, plugin, waitFor: { seconds: 10n, nanos: 0 } }));
      await close();
      say(`${plugin}: stopped`);
    },
  };
};
