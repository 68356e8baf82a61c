import { once } from "node:events";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { PostServer } from "../host-volumes/post-server.ts";
import { foundVolume } from "../testing/docker-rig.ts";
import { createDriverServer } from "./driver-server.ts";
import type { VolumeDriver } from "./volume-driver.ts";

let dir: string;
let socket: string;
let server: PostServer;
const metrics = createMetrics();
const log = createMemoryLogger();
const driver = {
  create: vi.fn<VolumeDriver["create"]>(async () => undefined),
  remove: vi.fn<VolumeDriver["remove"]>(async () => undefined),
  mount: vi.fn<VolumeDriver["mount"]>(),
  unmount: vi.fn<VolumeDriver["unmount"]>(async () => undefined),
  get: vi.fn<VolumeDriver["get"]>(),
  path: vi.fn<VolumeDriver["path"]>(async () => "/hf/x"),
  list: vi.fn<VolumeDriver["list"]>(async () => []),
};

const parts = { driver, namespace: "docker", log, metrics, tracing: createTracing("test") };

beforeEach(async () => {
  vi.clearAllMocks();
  dir = await mkdtemp(path.join(tmpdir(), "hf-driver-"));
  socket = path.join(dir, "plugins", "holdfast.sock");
  const { signal } = new AbortController();
  const now = () => performance.now();
  server = createDriverServer({ ...parts, now, signal });
  await server.listen(socket);
});
afterEach(async () => {
  await server.stop();
  await rm(dir, { recursive: true, force: true });
});

const send = (call: string, body: string | undefined, method = "POST") =>
  new Promise<{ status: number | undefined; body: unknown }>((resolve, reject) => {
    const sent = request({ socketPath: socket, path: call, method }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString("utf8");
      });
      response.once("end", () => resolve({ status: response.statusCode, body: JSON.parse(text) }));
    });
    sent.once("error", reject);
    sent.end(body);
  });
const call = (name: string, body: object) => send(`/VolumeDriver.${name}`, JSON.stringify(body));

test("the socket is for its owner and group, and one in use is not taken", async () => {
  expect((await stat(socket)).mode & 0o777).toBe(0o660);
  const { signal } = new AbortController();
  const now = () => 0;
  const second = createDriverServer({ ...parts, now, signal });
  await expect(second.listen(socket)).rejects.toMatchObject({ reason: "ADDRESS_IN_USE" });
});

test("each call of the protocol, as dockerd sends it", async () => {
  driver.mount.mockResolvedValue({ mountpoint: "/hf/x", unheard: async () => undefined });
  driver.get.mockResolvedValue({ volume: foundVolume("v", { createdAt: 1_000 }), mountpoint: "/hf/x" });
  expect(await send("/Plugin.Activate", undefined)).toEqual({
    status: 200,
    body: { Implements: ["VolumeDriver"], Err: "" },
  });
  expect(await call("Create", { Name: "v", Opts: { size: "1GiB" } })).toEqual({ status: 200, body: { Err: "" } });
  expect(driver.create.mock.calls[0]?.slice(0, 2)).toEqual(["v", { size: "1GiB" }]);
  expect(await call("Create", { Name: "v", Opts: null })).toEqual({ status: 200, body: { Err: "" } });
  expect(await call("Mount", { Name: "v", ID: "a" })).toEqual({ status: 200, body: { Mountpoint: "/hf/x", Err: "" } });
  expect(await call("Get", { Name: "v" })).toMatchObject({
    body: {
      Volume: { Name: "v", Mountpoint: "/hf/x", CreatedAt: "1970-01-01T00:00:01.000Z", Status: { plugin: "model" } },
    },
  });
  expect(await call("Path", { Name: "v" })).toMatchObject({ body: { Mountpoint: "/hf/x" } });
  expect(await call("List", {})).toMatchObject({ body: { Volumes: [] } });
  expect(await call("Capabilities", {})).toMatchObject({ body: { Capabilities: { Scope: "global" } } });
  expect(await call("Unmount", { Name: "v", ID: "a" })).toEqual({ status: 200, body: { Err: "" } });
  expect(await call("Remove", { Name: "v" })).toEqual({ status: 200, body: { Err: "" } });
  expect(await metrics.text()).toMatch(/holdfast_docker_call_seconds_count\{method="Mount",outcome="OK"\} 1/);
});

test("[DS1] a refusal is an answer with its reason; a fault of ours tells nothing", async () => {
  driver.create.mockRejectedValueOnce(invalidArgument([{ field: "size", description: "is wrong" }]));
  expect(await call("Create", { Name: "v" })).toEqual({
    status: 500,
    body: { Err: "INVALID_ARGUMENT: size: is wrong" },
  });
  const blocked = { kind: "precondition", reason: "CLAIM_BLOCKED", message: "it cannot go on" } as const;
  driver.mount.mockRejectedValueOnce(new HoldfastError({ ...blocked, metadata: { clear_with: "holdfast repair x" } }));
  expect(await call("Mount", { Name: "v", ID: "a" })).toEqual({
    status: 500,
    body: { Err: "CLAIM_BLOCKED: it cannot go on; holdfast repair x" },
  });
  driver.create.mockRejectedValueOnce(new Error("secret path /x"));
  expect(await call("Create", { Name: "v" })).toEqual({
    status: 500,
    body: { Err: "INTERNAL: the agent could not do it; its log has the details" },
  });
  const told = log.lines.map(({ level, fields }) => [level, fields["reason"]]);
  expect(told).toContainEqual(["warn", "INVALID_ARGUMENT"]);
  expect(told).toContainEqual(["error", "INTERNAL"]);
});

test.each([
  ["no JSON", "/VolumeDriver.Create", "{", 400],
  ["no object", "/VolumeDriver.Create", "[]", 400],
  ["no name", "/VolumeDriver.Get", "{}", 400],
  ["no id", "/VolumeDriver.Mount", '{"Name":"v"}', 400],
  ["an id with a line break", "/VolumeDriver.Mount", '{"Name":"v","ID":"a\\nb"}', 400],
  ["options that are no texts", "/VolumeDriver.Create", '{"Name":"v","Opts":{"size":1}}', 400],
  ["more than fits", "/VolumeDriver.Create", JSON.stringify({ Name: "v", Opts: { a: "x".repeat(70_000) } }), 413],
  ["another call", "/VolumeDriver.Format", "{}", 404],
])("[DS2] %s is refused before anything is done", async (_, at, body, status) => {
  expect(await send(at, body)).toMatchObject({ status, body: { Err: expect.stringMatching(/./) } });
  for (const one of Object.values(driver)) expect(one).not.toHaveBeenCalled();
});

test("[DS2] another method is refused", async () => {
  expect(await send("/VolumeDriver.List", undefined, "GET")).toMatchObject({ status: 405 });
});

test("[DS3] a caller that goes away ends its wait, and an answer that came too late is taken back", async () => {
  const unheard = vi.fn(async () => undefined);
  const asked = Promise.withResolvers<AbortSignal>();
  driver.mount.mockImplementation(async (_, id, signal) => {
    asked.resolve(signal);
    await once(signal, "abort");
    if (id === "late") return { mountpoint: "/hf/x", unheard };
    throw signal.reason;
  });
  const body = JSON.stringify({ Name: "v", ID: "late" });
  const peer = connect(socket);
  peer.write(`POST /VolumeDriver.Mount HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  const signal = await asked.promise;
  peer.destroy();
  await once(signal, "abort").catch(() => undefined);
  await vi.waitFor(() => expect(unheard).toHaveBeenCalledTimes(1));
});
