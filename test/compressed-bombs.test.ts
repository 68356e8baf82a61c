/** A message that is small on the wire and huge once it is inflated: neither a caller of a service nor a plugin gets it inflated. */
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import zlib from "node:zlib";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { defaultMaxMessageBytes } from "@holdfast/shared/grpc/message-limits";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { EchoDefinition } from "@holdfast/shared/testing/echo-service";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { bomb, rawCall, session, wireFrame } from "./support/resource-attacks.ts";

const path = `/${EchoDefinition.fullName}/Say`;
const log = createMemoryLogger();
const hugeBytes = 128 * 1024 * 1024;

let zeros: Buffer;
beforeAll(async () => {
  zeros = await bomb(hugeBytes);
});

/** What the transport's own decompressor gave out; it asks the module for one each time. */
let inflated: number;
beforeEach(() => {
  inflated = 0;
  const create = zlib.createGunzip;
  vi.spyOn(zlib, "createGunzip").mockImplementation((options) => {
    const gunzip = create(options);
    const { emit } = gunzip;
    gunzip.emit = (event: string | symbol, ...given: unknown[]) => {
      if (event === "data") inflated += (given[0] as Buffer).length;
      return emit.call(gunzip, event, ...given);
    };
    return gunzip;
  });
});
afterEach(() => vi.restoreAllMocks());

/** A chunk above the bound shows that there is too much. */
const atMost = defaultMaxMessageBytes + 256 * 1024;

test("a service refuses one that it is asked with at the bound of a message", async () => {
  const server = createGrpcServer({ log });
  server.add(EchoDefinition, { say: async (request) => request, watch: async function* () {} });
  const address = await server.listen("127.0.0.1:0");
  const one = session(address);
  try {
    expect(zeros.length).toBeLessThan(hugeBytes / 500);
    const call = () => rawCall(one, path, [wireFrame(zeros, true)], { "grpc-encoding": "gzip" });
    expect(await Promise.all([call(), call()])).toEqual(["8", "8"]);
    expect(inflated).toBeGreaterThan(defaultMaxMessageBytes);
    expect(inflated).toBeLessThan(2 * atMost);
    // One that says it is huge is refused by its length alone.
    expect(await rawCall(one, path, [wireFrame(Buffer.alloc(1), false, 64 << 20)])).toMatch(/^8$|^reset /);
  } finally {
    one.destroy();
    await server.stop({ graceMs: 0 });
  }
});

test("a client refuses one that it is answered with", async () => {
  const server = createServer();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => undefined);
    stream.respond(
      { ":status": 200, "content-type": "application/grpc", "grpc-encoding": "gzip" },
      { waitForTrailers: true },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(wireFrame(zeros, true));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const channel = createGrpcChannel(`127.0.0.1:${(server.address() as AddressInfo).port}`, { ownConnection: true });
  try {
    const client = createGrpcClient(EchoDefinition, channel, { log, identity: { role: "scheduler", name: "s" } });
    await expect(client.say({ text: "x" })).rejects.toMatchObject({ kind: "exhausted" });
    expect(inflated).toBeGreaterThan(defaultMaxMessageBytes);
    expect(inflated).toBeLessThan(atMost);
  } finally {
    channel.close();
    server.close();
  }
});
