import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { dialController } from "./controller-link-client.ts";

test("claims that wait at a controller take no stream from the heartbeats: each of the two has a connection", async () => {
  let sessions = 0;
  const server = createServer();
  server.on("session", () => {
    sessions += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const dialer = dialController({ log: createMemoryLogger(), node: "node-a" });
  const stop = new AbortController();
  onTestFinished(() => {
    stop.abort();
    dialer.close();
    server.close();
  });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [peer, claims] = [dialer.dial(address), dialer.dial(address)];
  const asked = [
    claims.requestClaims({ node: "node-a" }, { deadlineMs: 300, signal: stop.signal }),
    peer.heartbeat({ node: "node-a" }, { deadlineMs: 300, signal: stop.signal }),
  ];
  await Promise.allSettled(asked);
  expect(sessions).toBe(2);
});
