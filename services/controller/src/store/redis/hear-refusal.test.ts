/** A Redis that takes no client says why, writes nothing else and closes, as in protected mode. */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { parseRedisAddress } from "./redis-address.ts";
import { createRedisConnection } from "./redis-connection.ts";
import { createRedisKeys } from "./redis-keys.ts";

const serve = async (take: (socket: Socket) => void): Promise<number> => {
  const server: Server = createServer((socket) => {
    socket.on("error", () => undefined);
    take(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return (server.address() as { readonly port: number }).port;
};

const refusalOf = async (port: number): Promise<string> => {
  const connection = createRedisConnection({
    address: parseRedisAddress(`redis://127.0.0.1:${port}`),
    access: {},
    keys: createRedisKeys("test"),
    name: "refused-test",
    commandTimeoutMs: 1500,
    log: createMemoryLogger(),
    clock: systemClock,
    random: Math.random,
  });
  onTestFinished(connection.close);
  return await connection.connected().then(
    () => "connected",
    (error: Error) => error.message,
  );
};

test.each([
  [
    "DENIED Redis is running in protected mode because no password is set. In this mode connections are only accepted from loopback.",
    /^not connected: DENIED Redis is running in protected mode because no password is set \(give it a password, .*protected-mode no/,
  ],
  ["ERR max number of clients reached", /^not connected: ERR max number of clients reached$/],
])("%s", async (said, shown) => {
  const port = await serve((socket) => socket.write(`-${said}\r\n`, () => socket.destroy()));
  expect(await refusalOf(port)).toMatch(shown);
});

test("a server that resets without a word has no refusal made up for it", async () => {
  const port = await serve((socket) => socket.once("data", () => socket.resetAndDestroy()));
  expect(await refusalOf(port)).toMatch(/^not connected: .*(?:ECONNRESET|EPIPE)/);
});
