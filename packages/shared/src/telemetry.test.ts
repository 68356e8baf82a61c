import { createServer } from "node:http";
import { trace } from "@opentelemetry/api";
import { afterEach, describe, expect, test } from "vitest";
import { HoldfastError } from "./errors/holdfast-error.ts";
import { createGrpcChannel, createGrpcClient } from "./grpc/client.ts";
import { createGrpcServer } from "./grpc/server.ts";
import { createMemoryLogger } from "./log/logger.ts";
import { isAllowedAttribute, startTelemetry } from "./telemetry.ts";
import { EchoDefinition } from "./testing/echo-service.ts";
import { tempSocket } from "./testing/temp-socket.ts";
import { createTracing, formatTraceparent, parseTraceparent } from "./tracing.ts";

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
  readonly links?: readonly { readonly spanId: string }[];
  readonly status: { readonly code?: number; readonly message?: string };
}

/** A collector on a real port that keeps what it is sent. */
async function collector() {
  const spans: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      for (const resource of body.resourceSpans) for (const scope of resource.scopeSpans) spans.push(...scope.spans);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { spans, endpoint: `http://127.0.0.1:${port}` };
}

async function traced(sampleRatio = 1) {
  const { spans, endpoint } = await collector();
  const telemetry = await startTelemetry({
    service: "test",
    version: "0",
    instance: "i",
    enabled: true,
    endpoint,
    protocol: "http",
    sampleRatio,
    log: createMemoryLogger(),
  });
  cleanups.push(telemetry.shutdown);
  const byName = async (name: string) => {
    await telemetry.flush();
    return spans.filter((span) => span.name === name);
  };
  return { spans, byName, telemetry };
}

async function echo(fail?: HoldfastError) {
  const log = createMemoryLogger();
  const tracing = createTracing("inside");
  const server = createGrpcServer({ log });
  server.add(EchoDefinition, {
    say: async (request) => {
      await new Promise((resolve) => setImmediate(resolve));
      return await tracing.span("inner", {}, async () => {
        if (fail !== undefined) throw fail;
        return request;
      });
    },
    async *watch(request) {
      yield request;
      await tracing.span("between", {}, async () => undefined);
      yield request;
    },
  });
  const socket = await tempSocket();
  cleanups.push(socket.remove);
  const channel = createGrpcChannel(await server.listen(socket.address));
  cleanups.push(() => server.stop({ graceMs: 0 }));
  cleanups.push(() => channel.close());
  return { log, client: createGrpcClient(EchoDefinition, channel, { log }) };
}

describe("one trace", () => {
  test("from the caller's span over the wire into the handler", async () => {
    const { byName } = await traced();
    const { client, log } = await echo();
    await createTracing("outside").span("outer", { attributes: { "holdfast.volume": "v" } }, () =>
      client.say({ text: "x" }),
    );
    const [outer] = await byName("outer");
    const both = await byName("holdfast.test.v1.Echo/Say");
    const [inner] = await byName("inner");
    const clientSpan = both.find(({ kind }) => kind === 3);
    const serverSpan = both.find(({ kind }) => kind === 2);
    expect(clientSpan?.parentSpanId).toBe(outer?.spanId);
    expect(serverSpan?.parentSpanId).toBe(clientSpan?.spanId);
    expect(inner?.parentSpanId).toBe(serverSpan?.spanId);
    expect(inner?.traceId).toBe(outer?.traceId);
    const attributes = Object.fromEntries(
      (serverSpan?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]]),
    );
    expect(attributes).toEqual({
      "rpc.system": "grpc",
      "rpc.service": "holdfast.test.v1.Echo",
      "rpc.method": "Say",
      "rpc.grpc.status_code": 0,
    });
    const line = log.lines.find(({ message }) => message === "call");
    expect(line?.fields).toMatchObject({ trace_id: outer?.traceId, span_id: serverSpan?.spanId });
  });

  test("also through a stream, whose generator changes hands", async () => {
    const { byName } = await traced();
    const { client } = await echo();
    await createTracing("outside").span("outer", {}, async () => {
      for await (const _message of client.watch({ text: "x" }));
    });
    const [between] = await byName("between");
    const serverSpan = (await byName("holdfast.test.v1.Echo/Watch")).find(({ kind }) => kind === 2);
    expect(between?.parentSpanId).toBe(serverSpan?.spanId);
  });

  test("a failure has its reason on every span, and nothing of its text", async () => {
    const { byName, spans } = await traced();
    const { client } = await echo(
      new HoldfastError({ kind: "precondition", reason: "IN_USE", message: "secret-text" }),
    );
    await expect(client.say({ text: "x" })).rejects.toMatchObject({ reason: "IN_USE" });
    const failed = [...(await byName("holdfast.test.v1.Echo/Say")), ...(await byName("inner"))];
    expect(failed).toHaveLength(3);
    for (const { status } of failed) expect(status).toMatchObject({ code: 2, message: "IN_USE" });
    expect(JSON.stringify(spans)).not.toContain("secret-text");
  });

  test("goes on later from a stored traceparent, with links to what else led there", async () => {
    const { byName } = await traced();
    const tracing = createTracing("t");
    let stored: string | undefined;
    let other: string | undefined;
    await tracing.span("request", {}, async () => {
      stored = tracing.currentTraceparent();
    });
    await tracing.span("other", {}, async () => {
      other = tracing.currentTraceparent();
    });
    await tracing.span("step", { parent: stored, links: [other ?? "", "nonsense"] }, async () => undefined);
    const [request] = await byName("request");
    const [step] = await byName("step");
    const [otherSpan] = await byName("other");
    expect(step).toMatchObject({ traceId: request?.traceId, parentSpanId: request?.spanId });
    expect(step?.links?.map(({ spanId }) => spanId)).toEqual([otherSpan?.spanId]);
  });
});

test("attributes that nobody allowed never leave", async () => {
  const { byName } = await traced();
  const attributes = {
    "holdfast.volume": "v",
    "holdfast.token": "t",
    "grpc.metadata": "m",
    password: "p",
    "csi.secrets": "s",
  };
  await createTracing("t").span("span", { attributes }, async (span) => {
    span.addEvent("event", { "exception.message": "boom", "holdfast.step": "attach" });
  });
  const [span] = await byName("span");
  expect(span?.attributes.map(({ key }) => key)).toEqual(["holdfast.volume"]);
  expect(JSON.stringify(span)).not.toContain("boom");
  expect(isAllowedAttribute("rpc.method")).toBe(true);
  expect(isAllowedAttribute("db.statement")).toBe(false);
});

test("a trace that its beginner did not sample is not sampled here", async () => {
  const { spans, telemetry } = await traced();
  const unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  await createTracing("t").span("child", { parent: unsampled }, async () => undefined);
  await telemetry.flush();
  expect(spans).toEqual([]);
});

describe("off", () => {
  test("nothing is made, nothing is known", async () => {
    const telemetry = await startTelemetry({
      service: "s",
      version: "0",
      instance: "i",
      enabled: false,
      protocol: "grpc",
      sampleRatio: 1,
      log: createMemoryLogger(),
    });
    const tracing = createTracing("off");
    const result = await tracing.span("x", {}, async (span) => {
      expect(span.isRecording()).toBe(false);
      expect(trace.getActiveSpan()).toBeUndefined();
      return tracing.currentTraceparent();
    });
    expect(result).toBeUndefined();
    const { client } = await echo();
    expect(await client.say({ text: "x" })).toEqual({ text: "x" });
    await telemetry.shutdown();
  });
});

test("traceparents are read strictly and written back the same", () => {
  const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const parsed = parseTraceparent(text);
  expect(parsed === undefined ? undefined : formatTraceparent(parsed)).toBe(text);
  expect(parseTraceparent(`${text.replace(/^00/, "01")}-more`)?.traceId).toBe("0af7651916cd43dd8448eb211c80319c");
  const bad = [
    "",
    `${text}-x`,
    text.toUpperCase(),
    text.replace(/^00/, "ff"),
    text.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
  ];
  expect(bad.map(parseTraceparent)).toEqual(bad.map(() => undefined));
});
