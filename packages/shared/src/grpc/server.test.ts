import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstat, readFile, writeFile } from "node:fs/promises";
import { connect, createServer as createTcpServer } from "node:net";
import { createChannel, createClient, Metadata, Status } from "nice-grpc";
import { ErrorInfo, errorDetailsClientMiddleware, RichClientError } from "nice-grpc-error-details";
import { HealthDefinition } from "nice-grpc-server-health";
import { ServerReflectionService } from "nice-grpc-server-reflection";
import { ServerReflectionRequest } from "nice-grpc-server-reflection/lib/proto/grpc/reflection/v1/reflection_pb.js";
import { afterEach, describe, expect, test } from "vitest";
import { waitFor } from "../async/signals.ts";
import { HoldfastError, invalidArgument } from "../errors/holdfast-error.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { createMetrics } from "../metrics.ts";
import { EchoDefinition } from "../testing/echo-service.ts";
import { failureOf } from "../testing/failure-of.ts";
import { tempSocket } from "../testing/temp-socket.ts";
import type { CallContext, Implementation } from "./call-context.ts";
import { createGrpcChannel, createGrpcClient, type GrpcClientOptions } from "./client.ts";
import { createGrpcServer, type GrpcServerOptions } from "./server.ts";

type Handlers = Partial<Implementation<typeof EchoDefinition>>;

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function running(handlers: Handlers, options: Partial<GrpcServerOptions & GrpcClientOptions> = {}) {
  const log = createMemoryLogger();
  const socket = await tempSocket();
  cleanups.push(socket.remove);
  const server = createGrpcServer({ log, ...options });
  server.add(EchoDefinition, {
    say: async (request) => request,
    async *watch(request) {
      yield request;
    },
    ...handlers,
  });
  const address = await server.listen(socket.address);
  cleanups.push(() => server.stop({ graceMs: 0 }));
  const channel = createGrpcChannel(address);
  cleanups.push(() => channel.close());
  const client = createGrpcClient(EchoDefinition, channel, { log, ...options });
  return { log, server, address, channel, client, socket };
}

const until = (signal: AbortSignal) => waitFor(new Promise<never>(() => undefined), signal);

describe("errors over the wire", () => {
  test("kind, reason, metadata and every violation arrive", async () => {
    const { client } = await running({
      say: async () => {
        throw invalidArgument([
          { field: "a", description: "is missing" },
          { field: "b[1]", description: "is too long" },
        ]);
      },
    });
    const error = await failureOf(client.say({ text: "x" }));
    expect(error.kind).toBe("invalid");
    expect(error.reason).toBe("INVALID_ARGUMENT");
    expect(error.violations).toEqual([
      { field: "a", description: "is missing" },
      { field: "b[1]", description: "is too long" },
    ]);
  });

  test("what nobody threw on purpose is INTERNAL and tells nothing of the inside, but the log has it", async () => {
    const { client, log } = await running({
      say: async () => {
        throw new TypeError("cannot read /etc/secret of undefined");
      },
    });
    const error = await failureOf(client.say({ text: "x" }));
    expect(error).toMatchObject({ kind: "internal", reason: "INTERNAL" });
    expect(error.message).not.toContain("secret of undefined");
    const line = log.lines.find(({ message }) => message === "call failed");
    expect(line).toMatchObject({ level: "error", fields: { code: "INTERNAL", error: { name: "TypeError" } } });
  });

  test("any client reads the ErrorInfo", async () => {
    const { address } = await running({
      say: async () => {
        throw new HoldfastError({ kind: "precondition", reason: "IN_USE", message: "m", metadata: { volume: "v" } });
      },
    });
    const channel = createChannel(address);
    cleanups.push(() => channel.close());
    const { createClientFactory } = await import("nice-grpc");
    const bare = createClientFactory().use(errorDetailsClientMiddleware).create(EchoDefinition, channel);
    const error = await bare.say({ text: "x" }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RichClientError);
    if (!(error instanceof RichClientError)) return;
    expect(error.code).toBe(Status.FAILED_PRECONDITION);
    const info = error.extra.find((detail) => detail.$type === ErrorInfo.$type);
    expect(info).toMatchObject({ reason: "IN_USE", domain: "holdfast", metadata: { volume: "v" } });
  });

  test("a message far above 64 KB is cut and the call ends", async () => {
    const { client } = await running({
      say: async () => {
        throw new HoldfastError({ kind: "aborted", reason: "BIG", message: "x".repeat(500_000) });
      },
    });
    const error = await failureOf(client.say({ text: "x" }));
    expect(error.reason).toBe("BIG");
    expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(4096);
  });

  test("hundreds of violations stay below what peers take as headers", async () => {
    const violations = Array.from({ length: 500 }, (_, i) => ({ field: `f${i}`, description: "y".repeat(100) }));
    const { client } = await running({
      say: async () => {
        throw invalidArgument(violations);
      },
    });
    const error = await failureOf(client.say({ text: "x" }));
    expect(error.violations.length).toBeGreaterThan(5);
    expect(error.violations[0]).toEqual(violations[0]);
  });
});

describe("deadlines", () => {
  test("travel to the handler, whose signal ends with them", async () => {
    const seen: CallContext[] = [];
    const ends: unknown[] = [];
    const { client } = await running({
      say: async (request, context) => {
        if (request.text === "connect") return request;
        seen.push(context);
        await until(context.signal).catch((error: unknown) => {
          ends.push(error);
          throw error;
        });
        return { text: "" };
      },
    });
    // The caller's clock runs while it connects, ours does not.
    await client.say({ text: "connect" });
    const error = await failureOf(client.say({ text: "x" }, { deadlineMs: 150 }));
    expect(error).toMatchObject({ kind: "deadline", reason: "DEADLINE" });
    const context = seen[0];
    expect(context?.deadline).toBeTypeOf("number");
    await expect.poll(() => ends.length).toBe(1);
    expect(ends[0]).toMatchObject({ kind: "deadline" });
    expect(context?.remainingMs()).toBeLessThanOrEqual(150);
  });

  test("every call has one: the client's default when none is given", async () => {
    let remaining = 0;
    const { client } = await running(
      {
        say: async (request, context) => {
          remaining = context.remainingMs();
          return request;
        },
      },
      { defaultDeadlineMs: 5000 },
    );
    await client.say({ text: "x" });
    expect(remaining).toBeGreaterThan(0);
    expect(remaining).toBeLessThanOrEqual(5000);
  });

  test("a caller cannot plant one in the metadata, and a call without gets the server's default", async () => {
    let remaining = 0;
    const { address } = await running(
      {
        say: async (request, context) => {
          remaining = context.remainingMs();
          return request;
        },
      },
      { defaultDeadlineMs: 7000 },
    );
    const channel = createChannel(address);
    cleanups.push(() => channel.close());
    const bare = createClient(EchoDefinition, channel);
    await bare.say({ text: "x" }, { metadata: Metadata({ "x-holdfast-deadline": String(Date.now() + 86_400_000) }) });
    expect(remaining).toBeGreaterThan(1000);
    expect(remaining).toBeLessThanOrEqual(7000);
  });

  test("a cancelled call rejects with the caller's reason and aborts the handler as cancelled", async () => {
    const controller = new AbortController();
    const ends: unknown[] = [];
    const { client } = await running({
      say: async (_request, context) => {
        setTimeout(() => controller.abort(), 20);
        await until(context.signal).catch((error: unknown) => ends.push(error));
        return { text: "late" };
      },
    });
    const error = await failureOf(client.say({ text: "x" }, { signal: controller.signal }));
    expect(error.kind).toBe("cancelled");
    await expect.poll(() => ends.length).toBe(1);
    expect(ends[0]).toMatchObject({ kind: "cancelled" });
  });

  test("a stream's deadline ends it as a deadline, not as a cancel", async () => {
    const { client } = await running({
      async *watch(request, context) {
        yield request;
        await until(context.signal);
      },
    });
    const received: string[] = [];
    const reading = (async () => {
      for await (const message of client.watch({ text: "m" }, { deadlineMs: 200 })) received.push(message.text);
    })();
    expect((await failureOf(reading)).kind).toBe("deadline");
    expect(received).toEqual(["m"]);
  });
});

describe("identity", () => {
  test("the handler sees who calls; nobody is anonymous; nonsense is refused", async () => {
    const seen: unknown[] = [];
    const handlers: Handlers = {
      say: async (request, { identity }) => {
        seen.push(identity);
        return request;
      },
    };
    const named = await running(handlers, {});
    const scheduler = createGrpcClient(EchoDefinition, named.channel, {
      log: named.log,
      identity: { role: "scheduler", name: "toy" },
    });
    await scheduler.say({ text: "" });
    await named.client.say({ text: "" });
    const lie = Metadata({ "x-holdfast-identity": "emperor/me" });
    const error = await failureOf(named.client.say({ text: "" }, { metadata: lie }));
    expect(error).toMatchObject({ kind: "unauthenticated", reason: "IDENTITY_MALFORMED" });
    expect(seen).toEqual([
      { role: "scheduler", name: "toy" },
      { role: "anonymous", name: "" },
    ]);
  });
});

describe("retry", () => {
  test("is off unless codes are given, then counts all attempts within one deadline", async () => {
    const remaining: number[] = [];
    const { client } = await running(
      {
        say: async (_request, context) => {
          remaining.push(context.remainingMs());
          throw new HoldfastError({ kind: "unavailable", reason: "NOT_YET", message: "not yet" });
        },
      },
      { retry: { maxAttempts: 3, baseDelayMs: 20, maxDelayMs: 40 } },
    );
    expect((await failureOf(client.say({ text: "" }))).reason).toBe("NOT_YET");
    expect(remaining).toHaveLength(1);
    remaining.length = 0;
    const options = { retryCodes: [Status.UNAVAILABLE], deadlineMs: 4000 };
    expect((await failureOf(client.say({ text: "" }, options))).reason).toBe("NOT_YET");
    expect(remaining).toHaveLength(3);
    const [first = 0, , third = 0] = remaining;
    expect(third).toBeLessThan(first);
  });

  test("codes that were not named are not repeated", async () => {
    let calls = 0;
    const { client } = await running({
      say: async () => {
        calls += 1;
        throw new HoldfastError({ kind: "internal", reason: "BROKEN", message: "b" });
      },
    });
    await failureOf(client.say({ text: "" }, { retryCodes: [Status.UNAVAILABLE] }));
    expect(calls).toBe(1);
  });
});

describe("stop", () => {
  test("lets a running call finish and ends streams at once", async () => {
    let answer: (() => void) | undefined;
    const { client, server } = await running({
      say: (request, { signal }) => waitFor(new Promise((resolve) => (answer = () => resolve(request))), signal),
      async *watch(request, context) {
        yield request;
        await until(context.signal);
      },
    });
    const call = client.say({ text: "done" });
    const stream = client.watch({ text: "m" })[Symbol.asyncIterator]();
    await stream.next();
    await expect.poll(() => answer).toBeDefined();
    const stopped = server.stop({ graceMs: 10_000 });
    expect(await failureOf(stream.next())).toMatchObject({ kind: "unavailable", reason: "SHUTTING_DOWN" });
    answer?.();
    expect(await call).toEqual({ text: "done" });
    await stopped;
  });

  test("is bounded: a handler that minds nothing is cut off, one that minds its signal still answers", async () => {
    let started = 0;
    const { client, server } = await running({
      say: async ({ text }, { signal }) => {
        started += 1;
        return text === "deaf" ? await new Promise(() => undefined) : await until(signal);
      },
    });
    const deaf = failureOf(client.say({ text: "deaf" }));
    const minding = failureOf(client.say({ text: "minding" }));
    await expect.poll(() => started).toBe(2);
    await server.stop({ graceMs: 30 });
    expect((await minding).reason).toBe("SHUTTING_DOWN");
    expect(["cancelled", "unavailable"]).toContain((await deaf).kind);
    expect((await failureOf(client.say({ text: "more" }, { deadlineMs: 500 }))).kind).toBe("unavailable");
  });
});

describe("addresses", () => {
  test("port 0 answers the real port", async () => {
    const server = createGrpcServer({ log: createMemoryLogger() });
    const address = await server.listen("127.0.0.1:0");
    cleanups.push(() => server.stop({ graceMs: 0 }));
    expect(address).toMatch(/^127\.0\.0\.1:[1-9]\d+$/);
  });

  test("plaintext beyond loopback is refused by name, and allowed with a warning", async () => {
    const log = createMemoryLogger();
    const error = await failureOf(createGrpcServer({ log }).listen("0.0.0.0:0"));
    expect(error.reason).toBe("INSECURE_ADDRESS");
    expect(error.message).toContain("HOLDFAST_INSECURE");
    const metrics = createMetrics();
    const open = createGrpcServer({ log, metrics, insecure: true });
    await open.listen("0.0.0.0:0");
    cleanups.push(() => open.stop({ graceMs: 0 }));
    expect(log.lines.some(({ level, message }) => level === "warn" && message.includes("without TLS"))).toBe(true);
    expect(await metrics.text()).toContain('holdfast_insecure_listeners{address="0.0.0.0:0"} 1');
  });

  test("a port in use is named", async () => {
    const other = createTcpServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    cleanups.push(() => void other.close());
    const taken = other.address();
    const port = typeof taken === "object" && taken !== null ? taken.port : 0;
    const error = await failureOf(createGrpcServer({ log: createMemoryLogger() }).listen(`127.0.0.1:${port}`));
    expect(error).toMatchObject({ kind: "unavailable", reason: "LISTEN_FAILED" });
    expect(error.message).toContain(String(port));
  });

  test("the socket that a killed process left behind is replaced", async () => {
    const socket = await tempSocket();
    cleanups.push(socket.remove);
    const code = `require("node:net").createServer().listen(${JSON.stringify(socket.path)}, () => process.kill(process.pid, 9))`;
    const child = spawn(process.execPath, ["-e", code]);
    await new Promise((resolve) => child.once("close", resolve));
    expect((await lstat(socket.path)).isSocket()).toBe(true);
    const server = createGrpcServer({ log: createMemoryLogger(), socketMode: 0o600 });
    expect(await server.listen(socket.address)).toBe(socket.address);
    cleanups.push(() => server.stop({ graceMs: 0 }));
    expect((await lstat(socket.path)).mode & 0o777).toBe(0o600);
  });

  test("a directory that is not there is named, and not taken for a missing right", async () => {
    const socket = await tempSocket();
    cleanups.push(socket.remove);
    const address = `unix://${socket.directory}/gone/s.sock`;
    const error = await failureOf(createGrpcServer({ log: createMemoryLogger() }).listen(address));
    expect(error).toMatchObject({ kind: "unavailable", reason: "LISTEN_FAILED", metadata: { address } });
    expect(error.message).toBe(
      `cannot listen on ${address}: ${socket.directory}/gone does not exist; make it, or choose another path`,
    );
  });

  test("a live socket and a plain file are left alone", async () => {
    const { address, socket } = await running({});
    const log = createMemoryLogger();
    expect((await failureOf(createGrpcServer({ log }).listen(address))).reason).toBe("ADDRESS_IN_USE");
    const file = `${socket.directory}/file`;
    await writeFile(file, "precious");
    expect((await failureOf(createGrpcServer({ log }).listen(`unix://${file}`))).reason).toBe("ADDRESS_IN_USE");
    expect(await readFile(file, "utf8")).toBe("precious");
  });
});

test("health answers per service, NOT_SERVING until told otherwise", async () => {
  const { channel, server } = await running({});
  const health = createClient(HealthDefinition, channel);
  expect((await health.check({ service: "" })).status).toBe(1);
  expect((await health.check({ service: "holdfast.test.v1.Echo" })).status).toBe(2);
  server.setServing("holdfast.test.v1.Echo", true);
  expect((await health.check({ service: "holdfast.test.v1.Echo" })).status).toBe(1);
});

test("one caller's flood is refused at once, others are served, and places are given back", async () => {
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const metrics = createMetrics();
  const { channel, log } = await running(
    {
      say: async (request) => {
        await gate;
        return request;
      },
    },
    { metrics, limits: { maxInFlight: 3, maxInFlightPerCaller: 2 } },
  );
  const caller = (name: string) =>
    createGrpcClient(EchoDefinition, channel, { log, identity: { role: "scheduler", name } });
  const [one, two, three] = [caller("one"), caller("two"), caller("three")];
  const held = [one.say({ text: "" }), one.say({ text: "" })];
  expect(await failureOf(one.say({ text: "" }))).toMatchObject({ kind: "exhausted", reason: "OVERLOADED" });
  held.push(two.say({ text: "" }));
  expect(await failureOf(three.say({ text: "" }))).toMatchObject({ kind: "exhausted", reason: "OVERLOADED" });
  open();
  await Promise.all(held);
  expect(await three.say({ text: "x" })).toEqual({ text: "x" });
  const text = await metrics.text();
  const method = 'method="holdfast.test.v1.Echo/Say"';
  expect(text).toContain(`holdfast_grpc_server_seconds_count{${method},code="OK"} 4`);
  expect(text).toContain(`holdfast_grpc_server_seconds_count{${method},code="RESOURCE_EXHAUSTED"} 2`);
});

test("how often a caller calls is bounded, by its identity and without one by its address", async () => {
  const { channel, log } = await running({}, { limits: { maxPerSecondPerCaller: 1 } });
  const caller = (name: string) =>
    createGrpcClient(EchoDefinition, channel, { log, identity: { role: "scheduler", name } });
  const unnamed = createGrpcClient(EchoDefinition, channel, { log });
  for (const one of [caller("one"), unnamed]) {
    await one.say({ text: "" });
    await one.say({ text: "" });
    expect(await failureOf(one.say({ text: "" }))).toMatchObject({ kind: "exhausted", reason: "OVERLOADED" });
  }
  expect(await failureOf(unnamed.say({ text: "" }))).toMatchObject({
    message: expect.stringContaining("anonymous at"),
  });
  expect(await caller("two").say({ text: "x" })).toEqual({ text: "x" });
});

test("what a connection has in flight is bounded, calls that its caller reset and streams included", async () => {
  let begun = 0;
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const metrics = createMetrics();
  const log = createMemoryLogger();
  const limits = { maxConcurrentStreams: 2, maxOpenStreams: 1 };
  const server = createGrpcServer({ log, metrics, limits });
  server.add(EchoDefinition, {
    say: async (request) => {
      begun += 1;
      // Minds nothing: it goes on behind the reset.
      await gate;
      return request;
    },
    async *watch(request, { signal }) {
      yield request;
      await until(signal);
    },
  });
  const address = await server.listen("127.0.0.1:0");
  cleanups.push(() => server.stop({ graceMs: 0 }));
  const channel = createGrpcChannel(address);
  cleanups.push(() => channel.close());
  const client = createGrpcClient(EchoDefinition, channel, { log });
  for (let round = 1; round <= 3; round += 1) {
    const caller = new AbortController();
    const call = failureOf(client.say({ text: "" }, { signal: caller.signal }));
    await expect.poll(() => begun).toBe(round);
    caller.abort(new Error("gone"));
    await call.catch(() => undefined);
  }
  const watcher = new AbortController();
  const seen = client.watch({ text: "w" }, { signal: watcher.signal })[Symbol.asyncIterator]();
  expect(await seen.next()).toMatchObject({ value: { text: "w" } });
  expect(await metrics.text()).toContain(`holdfast_grpc_server_streams{address="${address}"} 1`);
  expect(await metrics.text()).toContain(`holdfast_grpc_server_connections{address="${address}"} 1`);
  const refused = await failureOf(client.say({ text: "" }));
  expect(refused).toMatchObject({ reason: "OVERLOADED", message: expect.stringContaining("on this connection: 4") });
  open();
  const again = failureOf((async () => void (await client.watch({ text: "w" })[Symbol.asyncIterator]().next()))());
  expect(await again).toMatchObject({ reason: "OVERLOADED", message: expect.stringContaining("1 streams") });
  watcher.abort(new Error("enough"));
  await seen.next().catch(() => undefined);
  expect(await client.say({ text: "x" })).toEqual({ text: "x" });
});

test("connections above the bound are closed as they come, and places are given back", async () => {
  const metrics = createMetrics();
  const server = createGrpcServer({ log: createMemoryLogger(), metrics, limits: { maxConnections: 2 } });
  server.add(EchoDefinition, { say: async (request) => request, async *watch() {} });
  const address = await server.listen("127.0.0.1:0");
  cleanups.push(() => server.stop({ graceMs: 0 }));
  const opened = () => {
    const socket = connect(Number(address.split(":").pop()), "127.0.0.1").on("error", () => undefined);
    cleanups.push(() => void socket.destroy());
    return socket;
  };
  const isOpen = `holdfast_grpc_server_connections{address="${address}"} 2`;
  const first = opened();
  opened();
  await expect.poll(() => metrics.text()).toContain(isOpen);
  await once(opened(), "close");
  first.destroy();
  await expect.poll(() => metrics.text()).toContain(isOpen.replace(/2$/, "1"));
  opened();
  await expect.poll(() => metrics.text()).toContain(isOpen);
});

test("a connection that is old enough is exchanged, and what runs on it goes on", async () => {
  const seen: string[] = [];
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const log = createMemoryLogger();
  const server = createGrpcServer({ log, limits: { connectionAgeMs: 100 } });
  server.add(EchoDefinition, {
    say: async (request, { peer }) => {
      seen.push(peer);
      if (request.text === "long") await gate;
      return request;
    },
    async *watch() {},
  });
  const address = await server.listen("127.0.0.1:0");
  cleanups.push(() => server.stop({ graceMs: 0 }));
  const channel = createGrpcChannel(address);
  cleanups.push(() => channel.close());
  const client = createGrpcClient(EchoDefinition, channel, { log });
  const long = client.say({ text: "long" });
  await expect
    .poll(async () => {
      await client.say({ text: "short" });
      return new Set(seen).size;
    })
    .toBeGreaterThan(1);
  open();
  expect(await long).toEqual({ text: "long" });
});

test("the message limit holds", async () => {
  const { client } = await running({}, { limits: { maxMessageBytes: 10_000 } });
  expect((await client.say({ text: "x".repeat(5000) })).text).toHaveLength(5000);
  expect((await failureOf(client.say({ text: "x".repeat(20_000) }))).kind).toBe("exhausted");
});

test.each(["v1", "v1alpha"])("reflection (%s) lists the services and knows their files", async (version) => {
  const { channel } = await running({});
  const { serverReflectionInfo } = ServerReflectionService;
  const path = serverReflectionInfo.path.replace(".v1.", `.${version}.`) as typeof serverReflectionInfo.path;
  const definition = { ...ServerReflectionService, serverReflectionInfo: { ...serverReflectionInfo, path } };
  const reflection = createClient(definition, channel);
  const ask = async (request: ServerReflectionRequest) => {
    for await (const response of reflection.serverReflectionInfo(asIterable(request))) return response;
    throw new Error("no answer");
  };
  const listed = await ask(new ServerReflectionRequest().setListServices("*"));
  const names = listed
    .getListServicesResponse()
    ?.getServiceList()
    .map((service) => service.getName());
  expect(names).toEqual(["holdfast.test.v1.Echo", "grpc.health.v1.Health"]);
  const found = await ask(new ServerReflectionRequest().setFileContainingSymbol("csi.v1.Node"));
  expect(found.getFileDescriptorResponse()?.getFileDescriptorProtoList()).toHaveLength(1);
});

async function* asIterable<T>(value: T): AsyncIterable<T> {
  yield value;
}
