import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createMemoryLogger } from "../log/logger.ts";
import { createGrpcServer } from "./server.ts";

/** Of a server: connections that the kernel has made, accepted or not. A table that changes while it is read may show one twice. */
const established = (port: number): number => {
  const at = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n");
  const peers = rows.flatMap((row) => {
    const [, local = "", peer = "", state] = row.trim().split(/\s+/);
    return local.endsWith(at) && state === "01" ? [peer] : [];
  });
  return new Set(peers).size;
};

test("a thousand connections wait to be accepted while the process is busy, and none is dropped", async () => {
  const server = createGrpcServer({ log: createMemoryLogger(), reflection: false });
  const port = Number((await server.listen("127.0.0.1:0")).split(":")[1]);
  const sockets: Socket[] = [];
  try {
    // All in one turn of the event loop: this process accepts none of them before the turn is over.
    for (let n = 0; n < 1_000; n += 1) sockets.push(connect(port, "127.0.0.1").on("error", () => undefined));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(established(port)).toBe(1_000);
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.stop({ graceMs: 0 });
  }
});
