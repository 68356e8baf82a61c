import { lstat, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { createServer, type Server } from "nice-grpc";
import type { Role } from "../backend/call.ts";
import type { Perform } from "./perform.ts";
import { addServices } from "./services.ts";
import type { StreamTap } from "./stream-tap.ts";

/** sockaddr_un's room; libuv cuts a longer path in silence and listens under another name. */
const socketPathLimit = 107;
const messageLimit = 16 * 1024 * 1024;

const answers = (socket: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect(socket);
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", () => resolve(false));
  });

/** Removes a socket file that a dead life of this plugin left; never one that somebody still serves. */
export const clearStaleSocket = async (socket: string): Promise<void> => {
  if (Buffer.byteLength(socket) > socketPathLimit) throw new Error(`${socket} is longer than ${socketPathLimit} bytes`);
  const found = await lstat(socket).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${socket} exists and is no socket`);
  if (await answers(socket)) throw new Error(`${socket} is served by another process`);
  await unlink(socket);
};

export const listen = async (socket: string, role: Role, perform: Perform, tap: StreamTap): Promise<Server> => {
  await clearStaleSocket(socket);
  const server = createServer({
    "grpc.max_receive_message_length": messageLimit,
    "grpc.max_send_message_length": messageLimit,
    interceptors: tap.interceptors,
  });
  addServices(server, role, perform);
  await server.listen(`unix://${socket}`);
  return server;
};
