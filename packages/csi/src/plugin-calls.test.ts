import { rm } from "node:fs/promises";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { ControllerPublishVolumeRequest, ControllerPublishVolumeResponse } from "@holdfast/shared/gen/csi/v1/csi";
import { createTracing } from "@holdfast/shared/tracing";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { ServerError, Status } from "nice-grpc";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CallReport } from "./csi-exchange.ts";
import type { CallOutcome } from "./outcome.ts";
import { reached, useConnectionFixture } from "./testing/connection-fixture.ts";
import { installSpanRecorder, type SpanRecorder } from "./testing/span-recorder.ts";
import type { TinyHandlers } from "./testing/tiny-plugin.ts";

const { home, signal, lines, start, connect } = useConnectionFixture();

const serving = async (handlers: TinyHandlers, options: Parameters<typeof connect>[0] = {}) => {
  const plugin = await start({ handlers });
  const connection = connect(options);
  await connection.whenReady(signal());
  plugin.calls.length = 0;
  return { plugin, connection };
};

const failing = (code: Status, text: string) => async (): Promise<never> => {
  throw new ServerError(code, text);
};

const failureOf = <T>(outcome: CallOutcome<T>) => {
  if (outcome.outcome === "done") throw new Error("the call succeeded");
  return outcome.failure;
};

const publish = {
  volumeId: "vol-1",
  nodeId: "node-1",
  volumeCapability: { mount: {}, accessMode: { mode: 1 } },
} as const;

describe("a call", () => {
  it("comes back done with the reply", async () => {
    const { connection } = await serving({
      controllerPublishVolume: async ({ volumeId, nodeId }) => ({ publishContext: { disk: `${volumeId}@${nodeId}` } }),
    });
    expect(await connection.call("ControllerPublishVolume", publish, { signal: signal() })).toEqual({
      outcome: "done",
      value: { publishContext: { disk: "vol-1@node-1" } },
    });
  });

  it("comes back with the plugin's code and the verdict of the table", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: failing(Status.FAILED_PRECONDITION, "attached to node-9"),
    });
    const outcome = await connection.call("ControllerPublishVolume", publish, { signal: signal() });
    expect(outcome.outcome).toBe("refused");
    expect(failureOf(outcome)).toMatchObject({
      method: "ControllerPublishVolume",
      plugin: "tiny.example.com",
      code: "FAILED_PRECONDITION",
      verdict: { outcome: "refused", needs: "other-node-detached" },
      message: "attached to node-9",
      sent: true,
    });
    expect(plugin.calls).toEqual(["ControllerPublishVolume"]);
  });

  it("takes NOT_FOUND of a delete for done", async () => {
    const { connection } = await serving({ deleteVolume: failing(Status.NOT_FOUND, "what volume?") });
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toEqual({
      outcome: "done",
      value: {},
    });
  });

  it("rejects a bad request with every violation, before anything is sent", async () => {
    const { plugin, connection } = await serving({});
    const bad = connection.call(
      "ControllerPublishVolume",
      { volumeId: "", nodeId: "n".repeat(257), secrets: { "a b": "x" } },
      { signal: signal() },
    );
    const error = await bad.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(HoldfastError);
    expect(error).toMatchObject({
      kind: "invalid",
      violations: [
        { field: "volume_id", description: "is required" },
        { field: "node_id", description: "has 257 bytes, at most 256 are allowed" },
        { field: "volume_capability", description: "is required" },
        { field: "secrets", description: "has a key outside [A-Za-z0-9-_.]" },
      ],
    });
    expect(plugin.calls).toEqual([]);
  });

  it("never repeats a mutating call, and leaves UNAVAILABLE unknown", async () => {
    const { plugin, connection } = await serving({ controllerPublishVolume: failing(Status.UNAVAILABLE, "later") });
    const outcome = await connection.call("ControllerPublishVolume", publish, { signal: signal() });
    expect(outcome.outcome).toBe("unknown");
    expect(plugin.calls).toEqual(["ControllerPublishVolume"]);
  });

  it("asks a question again when it met UNAVAILABLE, and only then", async () => {
    let answers = 0;
    const { plugin, connection } = await serving({
      listVolumes: async () => {
        answers += 1;
        if (answers < 3) throw new ServerError(Status.UNAVAILABLE, "reloading");
        return { entries: [] };
      },
      controllerGetVolume: failing(Status.INTERNAL, "no"),
    });
    expect(await connection.call("ListVolumes", { maxEntries: 10 }, { signal: signal() })).toMatchObject({
      outcome: "done",
    });
    expect(plugin.calls).toEqual(["ListVolumes", "ListVolumes", "ListVolumes"]);
    plugin.calls.length = 0;
    const other = await connection.call("ControllerGetVolume", { volumeId: "v" }, { signal: signal() });
    expect(failureOf(other).code).toBe("INTERNAL");
    expect(plugin.calls).toEqual(["ControllerGetVolume"]);
  });

  it("asks a question again only after the facts of the new process were read", async () => {
    const { plugin, connection } = await serving({
      listVolumes: async () => {
        setImmediate(() => void plugin.kill());
        return new Promise<never>(() => undefined);
      },
    });
    const answer = connection.call("ListVolumes", { maxEntries: 10 }, { signal: signal() });
    await reached(connection, "waiting");
    const next = await start({ handlers: { listVolumes: async () => ({ entries: [], nextToken: "t" }) } });
    expect(await answer).toMatchObject({ outcome: "done", value: { nextToken: "t" } });
    expect(next.calls.indexOf("ListVolumes")).toBeGreaterThan(next.calls.indexOf("NodeGetInfo"));
  });

  it("leaves a call unknown when the plugin dies under it", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: () => {
        setImmediate(() => void plugin.kill());
        return new Promise<never>(() => undefined);
      },
    });
    const outcome = await connection.call("ControllerPublishVolume", publish, { signal: signal() });
    expect(outcome.outcome).toBe("unknown");
    expect(failureOf(outcome)).toMatchObject({ sent: true });
  });

  it("leaves a call unknown when its caller gives it up, in flight or before", async () => {
    const arrived = Promise.withResolvers<void>();
    const { plugin, connection } = await serving({
      controllerPublishVolume: () => {
        arrived.resolve();
        return new Promise<never>(() => undefined);
      },
    });
    const giveUp = new AbortController();
    const call = connection.call("ControllerPublishVolume", publish, { signal: giveUp.signal });
    await arrived.promise;
    giveUp.abort();
    const outcome = await call;
    expect(outcome.outcome).toBe("unknown");
    expect(failureOf(outcome)).toMatchObject({ code: "CANCELLED", sent: true });
    plugin.calls.length = 0;
    const never = await connection.call("ControllerPublishVolume", publish, { signal: giveUp.signal });
    expect(failureOf(never)).toMatchObject({ code: "CANCELLED", sent: false });
    expect(plugin.calls).toEqual([]);
  });

  it("is answered by the process it was sent to, though another one has taken over meanwhile", async () => {
    const gate = Promise.withResolvers<void>();
    const { plugin, connection } = await serving({
      controllerPublishVolume: async () => {
        await gate.promise;
        return { publishContext: { from: "the old process" } };
      },
    });
    const call = connection.call("ControllerPublishVolume", publish, { signal: signal() });
    await expect.poll(() => plugin.calls).toEqual(["ControllerPublishVolume"]);
    await rm(home().socketPath);
    const next = await start({ controllerCaps: [1, 2, 9] });
    await expect.poll(() => connection.status().facts?.controller.EXPAND_VOLUME).toBe("yes");
    gate.resolve();
    expect(await call).toEqual({ outcome: "done", value: { publishContext: { from: "the old process" } } });
    expect(next.calls).not.toContain("ControllerPublishVolume");
  });

  it("is left unknown when the connection is closed under it", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: () => new Promise<never>(() => undefined),
    });
    const call = connection.call("ControllerPublishVolume", publish, { signal: signal() });
    await expect.poll(() => plugin.calls).toEqual(["ControllerPublishVolume"]);
    await connection.close();
    const outcome = await call;
    expect(outcome.outcome).toBe("unknown");
    expect(failureOf(outcome)).toMatchObject({ code: "CANCELLED", sent: true });
  });

  it("calls a reply malformed that lacks an id or talks of another volume: unknown, never done", async () => {
    const { connection } = await serving({
      createVolume: async () => ({ volume: { capacityBytes: 5n } }),
      controllerGetVolume: async () => ({ volume: { volumeId: "another" }, status: {} }),
    });
    const create = await connection.call(
      "CreateVolume",
      { name: "n", volumeCapabilities: [publish.volumeCapability] },
      { signal: signal() },
    );
    expect(create.outcome).toBe("unknown");
    expect(failureOf(create)).toMatchObject({
      code: "INTERNAL",
      message: "malformed reply: volume.volume_id is required",
    });
    const get = await connection.call("ControllerGetVolume", { volumeId: "v" }, { signal: signal() });
    expect(failureOf(get).message).toBe("malformed reply: volume.volume_id is not the one that was asked for");
  });

  it("sends nothing that the plugin did not announce", async () => {
    const { plugin, connection } = await serving({});
    const expand = { volumeId: "v", capacityRange: { requiredBytes: 1n } };
    expect(failureOf(await connection.call("ControllerExpandVolume", expand, { signal: signal() }))).toMatchObject({
      code: "UNIMPLEMENTED",
      verdict: { outcome: "refused", needs: "capabilities" },
      sent: false,
    });
    const readonly = { ...publish, readonly: true };
    expect(failureOf(await connection.call("ControllerPublishVolume", readonly, { signal: signal() }))).toMatchObject({
      code: "UNIMPLEMENTED",
      message: expect.stringContaining("lacks controller capability PUBLISH_READONLY"),
    });
    expect(plugin.calls).toEqual([]);
  });

  it("reports each RPC with its code and time", async () => {
    const reports: CallReport[] = [];
    const { connection } = await serving(
      { deleteVolume: failing(Status.ABORTED, "busy") },
      { onCall: (report) => reports.push(report) },
    );
    reports.length = 0;
    await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() });
    expect(reports).toEqual([
      {
        plugin: "tiny.example.com",
        method: "DeleteVolume",
        code: "ABORTED",
        seconds: expect.any(Number),
        about: { subject: {}, thing: "volume v", instance: expect.any(String), relayed: false, sent: true },
      },
    ]);
  });
});

describe("a plugin's words", () => {
  const canary = "c4n4ry/s3cret+value";

  it("come back without the secrets of the call, in whatever encoding, cut and on one line", async () => {
    const echoes = [canary, Buffer.from(canary).toString("base64"), encodeURIComponent(canary)];
    const { connection } = await serving({
      deleteVolume: failing(Status.INTERNAL, `login\n\twith ${echoes.join(" or ")} failed ${"x".repeat(5_000)}`),
    });
    const outcome = await connection.call(
      "DeleteVolume",
      { volumeId: "v", secrets: { password: canary } },
      { signal: signal() },
    );
    const { message } = failureOf(outcome);
    expect(message).toMatch(/^login with /);
    for (const echo of echoes) expect(message).not.toContain(echo);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
    expect(lines.join("\n")).not.toContain(canary);
  });

  it("come back without what publish context, volume context and mount flags carried", async () => {
    const { connection } = await serving({
      nodeStageVolume: async ({ publishContext, volumeContext, volumeCapability }) => {
        const flags = volumeCapability?.mount?.mountFlags.join(",");
        throw new ServerError(Status.INTERNAL, `mount ${publishContext["key"]} ${volumeContext["token"]} -o ${flags}`);
      },
    });
    const outcome = await connection.call(
      "NodeStageVolume",
      {
        volumeId: "v",
        stagingTargetPath: "/s",
        publishContext: { key: "publish-context-canary" },
        volumeContext: { token: "volume-context-canary" },
        volumeCapability: {
          mount: { mountFlags: ["noatime", "password=mount-flag-canary"] },
          accessMode: { mode: 1 },
        },
      },
      { signal: signal() },
    );
    const { message } = failureOf(outcome);
    expect(message).not.toContain("canary");
    expect(message).toContain("noatime");
  });
});

describe("deadlines", () => {
  it("reach the plugin, as the policy or the caller says", async () => {
    const { plugin, connection } = await serving({ probe: async () => ({}) });
    const told = async (deadlineMs = 60_000): Promise<number> => {
      const sent = Date.now();
      await connection.call("Probe", {}, { signal: signal(), deadlineMs });
      return plugin.deadlineOf("probe") - sent;
    };
    expect(await told()).toBeGreaterThan(30_000);
    expect(await told(3_600_000)).toBeGreaterThan(3_000_000);
    expect(await told(20_000)).toBeLessThan(30_000);
  });

  it("are not told to the plugin of a call that changes something: its server would end the stream, and go on with the call", async () => {
    const { plugin, connection } = await serving({ deleteVolume: async () => ({}) });
    await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal(), deadlineMs: 20_000 });
    expect(plugin.calls).toContain("DeleteVolume");
    expect(plugin.deadlineOf("deleteVolume")).toBeNaN();
  });

  it("end the wait for a call that hangs, as unknown; a plugin that still answers probes keeps its connection", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: () => new Promise<never>(() => undefined),
      deleteVolume: async () => ({}),
    });
    const outcome = await connection.call("ControllerPublishVolume", publish, { signal: signal(), deadlineMs: 60 });
    expect(outcome.outcome).toBe("unknown");
    expect(failureOf(outcome)).toMatchObject({ code: "DEADLINE_EXCEEDED", sent: true });
    const look = ["Probe", "GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetCapabilities"];
    await expect.poll(() => plugin.calls).toEqual(["ControllerPublishVolume", ...look]);
    expect(connection.status().phase).toBe("ready");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "done",
    });
    expect(plugin.calls).not.toContain("GetPluginInfo");
  });

  it("lead to a new connection when the plugin answers no probe either", async () => {
    let hung = false;
    const { plugin, connection } = await serving({
      probe: () => (hung ? new Promise<never>(() => undefined) : Promise.resolve({})),
      controllerPublishVolume: () => {
        hung = true;
        return new Promise<never>(() => undefined);
      },
    });
    await connection.call("ControllerPublishVolume", publish, { signal: signal(), deadlineMs: 60 });
    const status = await reached(connection, "unhealthy");
    expect(status.reason).toContain("answers no probe");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      failure: { sent: false },
    });
    const seen: string[] = [];
    connection.onChange(({ phase }) => seen.push(phase));
    hung = false;
    await connection.whenReady(signal());
    // It was never well in between: a new connection by itself says nothing.
    expect(seen).toEqual(["ready"]);
    expect(plugin.calls.filter((name) => name === "GetPluginInfo")).toHaveLength(1);
  });

  it("end a call whose status message is too large for the wire, and the plugin is callable afterwards", async () => {
    const { connection } = await serving({
      controllerPublishVolume: failing(Status.INTERNAL, "x".repeat(100_000)),
      deleteVolume: async () => ({}),
    });
    const outcome = await connection.call("ControllerPublishVolume", publish, { signal: signal(), deadlineMs: 500 });
    expect(outcome.outcome).toBe("unknown");
    expect(Buffer.byteLength(failureOf(outcome).message)).toBeLessThanOrEqual(1024);
    // The oversized message breaks the connection; a new one is there without anybody asking for it.
    await expect
      .poll(() => connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() }))
      .toMatchObject({ outcome: "done" });
  });
});

describe("many calls at once", () => {
  it("are refused past 64 in flight, at once, unsent, and without a word about the node", async () => {
    const gate = Promise.withResolvers<void>();
    const { plugin, connection } = await serving({
      controllerPublishVolume: async () => {
        await gate.promise;
        return {};
      },
    });
    const running = Array.from({ length: 64 }, (_, n) =>
      connection.call("ControllerPublishVolume", { ...publish, volumeId: `v${n}` }, { signal: signal() }),
    );
    await expect.poll(() => plugin.calls.length).toBe(64);
    const refused = await connection.call("ControllerPublishVolume", publish, { signal: signal() });
    expect(refused.outcome).toBe("unknown");
    expect(failureOf(refused)).toMatchObject({ code: "RESOURCE_EXHAUSTED", sent: false });
    expect(failureOf(refused).verdict).not.toHaveProperty("tellPlacement");
    gate.resolve();
    for (const outcome of await Promise.all(running)) expect(outcome.outcome).toBe("done");
    expect(plugin.calls).toHaveLength(64);
  });
});

describe("a relayed call", () => {
  it("passes the bytes both ways, gated like any other", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: async () => ({ publishContext: { lun: "3" } }),
    });
    const bytes = ControllerPublishVolumeRequest.encode(ControllerPublishVolumeRequest.fromPartial(publish)).finish();
    const outcome = await connection.relay("ControllerPublishVolume", bytes, { signal: signal() });
    if (outcome.outcome !== "done") throw new Error("not done");
    expect(ControllerPublishVolumeResponse.decode(outcome.value).publishContext).toEqual({ lun: "3" });
    plugin.calls.length = 0;
    const expand = await connection.relay("ControllerExpandVolume", new Uint8Array(), { signal: signal() });
    expect(failureOf(expand)).toMatchObject({ code: "UNIMPLEMENTED", sent: false });
    await expect(
      connection.relay("ControllerPublishVolume", new Uint8Array([0xff, 0xff]), { signal: signal() }),
    ).rejects.toMatchObject({ kind: "invalid" });
    expect(plugin.calls).toEqual([]);
  });

  it("strikes out the secrets that are inside the bytes", async () => {
    const { connection } = await serving({
      controllerPublishVolume: async ({ secrets }) => {
        throw new ServerError(Status.INTERNAL, `login with ${secrets["password"]} failed`);
      },
    });
    const request = ControllerPublishVolumeRequest.fromPartial({ ...publish, secrets: { password: "relayed-canary" } });
    const bytes = ControllerPublishVolumeRequest.encode(request).finish();
    const outcome = await connection.relay("ControllerPublishVolume", bytes, { signal: signal() });
    expect(failureOf(outcome).message).toMatch(/^login with \S+ failed$/);
    expect(failureOf(outcome).message).not.toContain("canary");
  });
});

describe("traces", () => {
  let recorder: SpanRecorder;
  beforeEach(() => {
    recorder = installSpanRecorder();
  });
  afterEach(() => recorder.uninstall());

  const subject = { namespace: "ns", volume: "vol", claim: "web/data", node: "node-1", attempt: 2 };

  it("have a client span for each RPC, with what it is about and how it ended, under the active span", async () => {
    const { plugin, connection } = await serving({
      controllerPublishVolume: failing(Status.ABORTED, "secret words"),
    });
    await createTracing("test").span("drive", {}, () =>
      connection.call("ControllerPublishVolume", publish, { signal: signal(), subject }),
    );
    const [drive] = recorder.named("drive");
    const [span, ...others] = recorder.named("csi.v1.Controller/ControllerPublishVolume");
    expect(others).toEqual([]);
    expect(span).toMatchObject({
      kind: SpanKind.CLIENT,
      parentSpanId: drive?.spanId,
      traceId: drive?.traceId,
      status: { code: SpanStatusCode.ERROR, message: "ABORTED" },
      ended: true,
      attributes: {
        "rpc.system": "grpc",
        "rpc.service": "csi.v1.Controller",
        "rpc.method": "ControllerPublishVolume",
        "rpc.grpc.status_code": 10,
        "csi.method": "ControllerPublishVolume",
        "csi.code": "ABORTED",
        "csi.volume_id": publish.volumeId,
        "holdfast.plugin": "tiny.example.com",
        "holdfast.instance": connection.instanceId,
        "holdfast.volume": "ns/vol",
        "holdfast.claim": "web/data",
        "holdfast.node": "node-1",
        "holdfast.attempt": 2,
        "holdfast.outcome": "unknown",
      },
    });
    const sent = plugin.contexts.get("controllerPublishVolume")?.metadata.get("traceparent");
    expect(sent).toBe(`00-${span?.traceId}-${span?.spanId}-01`);
    expect(JSON.stringify(recorder.spans)).not.toContain("secret words");
  });

  it("outside of any trace have a span only for a question that failed, and none for a call that was not sent", async () => {
    let answers = 0;
    const { connection } = await serving({
      listVolumes: async () => {
        answers += 1;
        if (answers === 1) throw new ServerError(Status.INTERNAL, "");
        return {};
      },
    });
    await connection.call("ListVolumes", { maxEntries: 1 }, { signal: signal() });
    expect(
      recorder.named("csi.v1.Controller/ListVolumes").map(({ attributes }) => attributes["holdfast.outcome"]),
    ).toEqual(["unknown"]);
    await connection.call("ListVolumes", { maxEntries: 1 }, { signal: signal() });
    expect(recorder.named("csi.v1.Controller/ListVolumes")).toHaveLength(1);
    await connection.call("GetCapacity", {}, { signal: signal() });
    expect(recorder.named("csi.v1.Controller/GetCapacity")).toEqual([]);
  });

  it("outside of any trace name the instance and the node of a question that failed", async () => {
    const probe = failing(Status.INTERNAL, "no");
    const { connection } = await serving({ listVolumes: probe }, { node: "node-1", instanceId: "alloc-1" });
    await connection.call("ListVolumes", { maxEntries: 1 }, { signal: signal() });
    expect(recorder.named("csi.v1.Controller/ListVolumes").map(({ attributes }) => attributes)).toMatchObject([
      {
        "csi.method": "ListVolumes",
        "csi.code": "INTERNAL",
        "holdfast.plugin": "tiny.example.com",
        "holdfast.instance": "alloc-1",
        "holdfast.node": "node-1",
        "holdfast.traced_because": "failed",
      },
    ]);
  });

  it("within a trace have one span for a question that was asked again, with an event for each repeat", async () => {
    let answers = 0;
    const { plugin, connection } = await serving({
      listVolumes: async () => {
        answers += 1;
        if (answers === 1) throw new ServerError(Status.UNAVAILABLE, "");
        return {};
      },
    });
    await createTracing("test").span("above", {}, async () =>
      connection.call("ListVolumes", { maxEntries: 1 }, { signal: signal() }),
    );
    expect(plugin.calls).toEqual(["ListVolumes", "ListVolumes"]);
    const [above] = recorder.named("above");
    expect(recorder.named("csi.v1.Controller/ListVolumes")).toMatchObject([
      {
        parentSpanId: above?.spanId,
        attributes: { "holdfast.outcome": "done" },
        events: [{ name: "asked again later", attributes: { "error.type": "UNAVAILABLE", "holdfast.attempt": 2 } }],
      },
    ]);
  });
});
