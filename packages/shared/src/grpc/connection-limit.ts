/**
 * How many connections a server has open, at most takes, and lets wait. grpc-js keeps its sockets to itself: Node tells of each server that
 * begins to listen, and of each connection that any server of this process accepts; those of another server are passed over.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Server, Socket } from "node:net";
import type { Address } from "./listen-address.ts";

const listening = "tracing:net.server.listen:asyncStart";
/**
 * Of connections that were not accepted yet; the kernel bounds it as well. Node's own 511 is soon full when thousands of agents dial at
 * once, and a client whose connection was dropped tries again after 1, 3, 7, 15, 31 and 63 seconds.
 */
const backlog = 4_096;

/** Servers that begin to listen meanwhile let more connections wait, and are told before the first of them comes. */
export async function onListening<T>(tell: (server: unknown) => void, listen: () => Promise<T>): Promise<T> {
  const onListen = (message: unknown): void => {
    if (typeof message !== "object" || message === null || !("options" in message)) return;
    if (typeof message.options === "object" && message.options !== null) Object.assign(message.options, { backlog });
    if ("server" in message) tell(message.server);
  };
  subscribe(listening, onListen);
  try {
    return await listen();
  } finally {
    unsubscribe(listening, onListen);
  }
}

const channel = "net.server.socket";

const serverOf = (message: unknown): { readonly socket: Socket; readonly server: Server } | undefined => {
  if (typeof message !== "object" || message === null || !("socket" in message)) return undefined;
  const { socket } = message;
  if (!(socket instanceof Socket)) return undefined;
  const server: unknown = Reflect.get(socket, "server");
  return server instanceof Server ? { socket, server } : undefined;
};

const isAt = (server: Server, bound: Address): boolean => {
  const at = server.address();
  if (typeof at === "string") return bound.kind === "unix" && at === bound.path;
  return at !== null && bound.kind === "tcp" && at.port === bound.port;
};

/** Answers how to end it. */
export function limitConnections(bound: Address, most: number, onChange: (open: number) => void): () => void {
  let open = 0;
  const onSocket = (message: unknown): void => {
    const found = serverOf(message);
    if (found === undefined || !isAt(found.server, bound)) return;
    // From the second connection on Node itself drops those above.
    found.server.maxConnections = most;
    open += 1;
    onChange(open);
    found.socket.once("close", () => {
      open -= 1;
      onChange(open);
    });
  };
  subscribe(channel, onSocket);
  return () => void unsubscribe(channel, onSocket);
}
