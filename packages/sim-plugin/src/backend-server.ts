import { createServer, type Server, type Socket } from "node:net";
import type { Backend } from "./backend/backend.ts";
import type { Instance } from "./backend/call.ts";
import { decode, encode } from "./backend/json.ts";
import { isBackendOperation, type OperationReply, type OperationRequest } from "./backend-operations.ts";
import { onLine } from "./lines.ts";
import { clearStaleSocket } from "./role/listen.ts";

const perform = (backend: Backend, { id, operation, args }: OperationRequest): OperationReply => {
  if (!isBackendOperation(operation)) return { id, error: `there is no operation ${operation}` };
  try {
    const act = backend[operation] as (...args: readonly unknown[]) => unknown;
    return { id, result: act(...args) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
};

/**
 * Serves a backend to role processes and tests. Requests of all connections are taken one after the other in the order
 * in which they arrive: that is the one clock by which order across hosts is judged. A connection that introduced an
 * instance stands for it: when it closes, the instance is dead.
 */
export const serveBackend = async (backend: Backend, path: string): Promise<Server> => {
  await clearStaleSocket(path);
  const connections = new Map<string, Socket>();
  const serve = (socket: Socket): void => {
    let instance: string | undefined;
    onLine(socket, (line) => {
      const request = decode(line) as OperationRequest;
      if (request.operation === "attach") {
        instance = (request.args[0] as Instance).name;
        connections.set(instance, socket);
      }
      const reply = perform(backend, request);
      if (socket.writable) socket.write(`${encode(reply)}\n`);
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      // An instance that has come back by another connection lives.
      if (instance !== undefined && connections.get(instance) === socket) backend.detach(instance);
    });
  };
  const server = createServer(serve);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  return server;
};
