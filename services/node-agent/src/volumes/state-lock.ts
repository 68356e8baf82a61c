/**
 * One agent per state directory: two would write one journal. Held by the kernel for as long as the process lives, and gone
 * with it, so that nothing is ever left to be cleaned up.
 *
 * K1 An abstract socket, named after the directory's inode: taken by one process at a time in a network namespace.
 * K2 A socket file in the directory for agents in other network namespaces: it answers as long as its agent lives.
 */
import { stat, unlink } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import path from "node:path";

export interface StateLock {
  release(): Promise<void>;
}

export async function takeStateLock(directory: string): Promise<StateLock> {
  const { dev, ino } = await stat(directory);
  const taken = new Error(`another agent runs on the state directory ${directory}: stop it first`);
  const inside = await listen(`\0holdfast-agent-${dev}-${ino}`).catch((error: unknown) => {
    throw codeOf(error) === "EADDRINUSE" ? taken : error;
  });
  const file = path.join(directory, "lock.sock");
  try {
    if (await answers(file)) throw taken;
    await unlink(file).catch(() => undefined);
    const across = await listen(file);
    return {
      async release() {
        await close(across);
        await close(inside);
      },
    };
  } catch (error) {
    await close(inside);
    throw error;
  }
}

function listen(address: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    // Whoever knocks learns that somebody is here, and no more.
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen(address, () => {
      server.off("error", reject);
      server.unref();
      resolve(server);
    });
  });
}

function answers(file: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(file);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    // ENOENT: never there. ECONNREFUSED: its agent is dead.
    socket.once("error", () => resolve(false));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "";
