/** A CSI plugin of a few lines on a real socket, for tests of the wire: every answer is a function of the test's own. */
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer as createNetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  ControllerDefinition,
  type ControllerServiceImplementation,
  IdentityDefinition,
  type IdentityServiceImplementation,
  NodeDefinition,
  type NodeServiceImplementation,
  SnapshotMetadataDefinition,
  type SnapshotMetadataServiceImplementation,
} from "@holdfast/shared/gen/csi/v1/csi";
import { callerInterceptor } from "@holdfast/shared/grpc/caller-interceptor";
import { type CallContext, createServer, ServerError, Status } from "nice-grpc";

export type TinyHandlers = Partial<
  IdentityServiceImplementation &
    ControllerServiceImplementation &
    NodeServiceImplementation &
    SnapshotMetadataServiceImplementation
>;

export interface TinyPluginOptions {
  readonly socketPath: string;
  readonly name?: string;
  readonly nodeId?: string;
  /** Enum numbers. */
  readonly pluginServices?: readonly number[];
  readonly controllerCaps?: readonly number[];
  readonly nodeCaps?: readonly number[];
  readonly handlers?: TinyHandlers;
}

export interface TinyPlugin {
  /** Method names in the order of their arrival. */
  readonly calls: string[];
  readonly contexts: Map<string, CallContext>;
  /** What the plugin was told of the time it has, in milliseconds since 1970. */
  deadlineOf(handler: string): number;
  /** Tears every connection and removes the socket. */
  kill(): Promise<void>;
}

export async function startTinyPlugin(options: TinyPluginOptions): Promise<TinyPlugin> {
  const { socketPath, name = "tiny.example.com", nodeId = "node-1" } = options;
  const { pluginServices = [1], controllerCaps = [1, 2, 3, 12], nodeCaps = [1, 2], handlers = {} } = options;
  const calls: string[] = [];
  const contexts = new Map<string, CallContext>();
  const identity: TinyHandlers = {
    probe: async () => ({}),
    getPluginInfo: async () => ({ name, vendorVersion: "1.0.0" }),
    getPluginCapabilities: async () => ({
      capabilities: pluginServices.map((type) => ({ service: { type: type as 1 } })),
    }),
    controllerGetCapabilities: async () => ({
      capabilities: controllerCaps.map((type) => ({ rpc: { type: type as 1 } })),
    }),
    nodeGetCapabilities: async () => ({ capabilities: nodeCaps.map((type) => ({ rpc: { type: type as 1 } })) }),
    nodeGetInfo: async () => ({ nodeId, maxVolumesPerNode: 7n, accessibleTopology: { segments: { zone: "a" } } }),
  };
  const all: Record<string, unknown> = { ...identity, ...handlers };
  const implementation = new Proxy(
    {},
    {
      get:
        (_, key: string) =>
        (request: unknown, context: CallContext): unknown => {
          calls.push(key.charAt(0).toUpperCase() + key.slice(1));
          contexts.set(key, context);
          const handler = all[key] as ((request: unknown, context: CallContext) => unknown) | undefined;
          return (
            handler?.(request, context) ?? Promise.reject(new ServerError(Status.UNIMPLEMENTED, `${key} is not there`))
          );
        },
      has: () => true,
    },
  );
  const server = createServer({ interceptors: [callerInterceptor] });
  server.add(IdentityDefinition, implementation as IdentityServiceImplementation);
  server.add(ControllerDefinition, implementation as ControllerServiceImplementation);
  server.add(NodeDefinition, implementation as NodeServiceImplementation);
  server.add(SnapshotMetadataDefinition, implementation as SnapshotMetadataServiceImplementation);
  // The gRPC server sits behind a pipe that can be torn: a shutdown of its own would say goodbye, a death does not.
  const port = await server.listen("127.0.0.1:0");
  const open = new Set<Socket>();
  const front = createNetServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from);
      from.on("error", () => undefined);
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => front.listen(socketPath, resolve));
  let dead = false;
  return {
    calls,
    contexts,
    deadlineOf: (handler) => Number(contexts.get(handler)?.metadata.get("x-holdfast-deadline")),
    async kill() {
      if (dead) return;
      dead = true;
      const closed = new Promise((resolve) => front.close(resolve));
      for (const socket of open) socket.destroy();
      await closed;
      await server.forceShutdown();
    },
  };
}

export interface SocketDirectory extends AsyncDisposable {
  readonly dir: string;
  readonly socketPath: string;
}

export async function makeSocketDirectory(): Promise<SocketDirectory> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-csi-"));
  return {
    dir,
    socketPath: path.join(dir, "csi.sock"),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}
