/** A plugin reached through another process's connection: the caller over a transport that is no socket of its own. */
import { systemClock } from "@holdfast/shared/async/clock";
import { createTracing } from "@holdfast/shared/tracing";
import { SpanKind } from "@opentelemetry/api";
import { ServerError, Status } from "nice-grpc";
import { describe, expect, it } from "vitest";
import { type CallOptions, type CsiCaller, createCsiCaller } from "./csi-caller.ts";
import { createCsiExchange } from "./csi-exchange.ts";
import type { CallOutcome } from "./outcome.ts";
import type { PluginConnection } from "./plugin-connection.ts";
import { useConnectionFixture } from "./testing/connection-fixture.ts";
import { installSpanRecorder } from "./testing/span-recorder.ts";
import type { TinyHandlers } from "./testing/tiny-plugin.ts";
import type { CsiTransport, WireOptions, WireReply } from "./transport.ts";

const { signal, start, connect } = useConnectionFixture();

/** What an answer looks like after it crossed a process: a code, a text, and whether anything was sent. */
const crossed = (outcome: CallOutcome<Uint8Array>): WireReply => {
  if (outcome.outcome === "done") return { bytes: outcome.value };
  const { code, message, sent, answered = false } = outcome.failure;
  return { failure: { code, message, sent, answered } };
};

const within = ({ deadlineMs = 60_000, ...options }: WireOptions): CallOptions => ({ ...options, deadlineMs });

const relayed = (far: PluginConnection): CsiCaller => {
  const transport: CsiTransport = {
    unary: async (method, bytes, options) => crossed(await far.relay(method, bytes, within(options))),
    async *stream(method, bytes, options) {
      for await (const item of far.relayStream(method, bytes, within(options))) yield crossed(item);
    },
  };
  const plugin = () => "tiny.example.com";
  // As it was told once: the near side learns late that the far one is gone.
  const { facts } = far.status();
  return createCsiCaller({
    plugin,
    exchange: createCsiExchange({ plugin, tracing: createTracing("test"), clock: systemClock, hop: "relay" }),
    access: () => (facts === undefined ? { closed: "not known yet" } : { facts, transport }),
  });
};

const serving = async (handlers: TinyHandlers) => {
  const plugin = await start({ pluginServices: [1, 4], handlers });
  const far = connect();
  await far.whenReady(signal());
  return { plugin, far, caller: relayed(far) };
};

const publish = { volumeId: "v", nodeId: "n", volumeCapability: { mount: {}, accessMode: { mode: 1 as const } } };

describe("a caller over a relay", () => {
  it("gets replies, verdicts and streams as if the plugin were here", async () => {
    const { caller } = await serving({
      controllerPublishVolume: async () => ({ publishContext: { lun: "1" } }),
      controllerUnpublishVolume: async () => {
        throw new ServerError(Status.NOT_FOUND, "no such node");
      },
      deleteVolume: async () => {
        throw new ServerError(Status.NOT_FOUND, "no such volume");
      },
      async *getMetadataAllocated() {
        yield { volumeCapacityBytes: 9n };
      },
    });
    expect(await caller.call("ControllerPublishVolume", publish, { signal: signal() })).toEqual({
      outcome: "done",
      value: { publishContext: { lun: "1" } },
    });
    const gone = await caller.call("ControllerUnpublishVolume", { volumeId: "v", nodeId: "n" }, { signal: signal() });
    expect(gone).toMatchObject({ outcome: "unknown", failure: { code: "NOT_FOUND", sent: true } });
    expect((await caller.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).outcome).toBe("done");
    const capacities: bigint[] = [];
    for await (const reply of caller.stream("GetMetadataAllocated", { snapshotId: "s" }, { signal: signal() }))
      capacities.push(reply.volumeCapacityBytes);
    expect(capacities).toEqual([9n]);
  });

  it("checks the reply itself: whoever passed it on did not", async () => {
    const { caller } = await serving({ createVolume: async () => ({ volume: { capacityBytes: -1n, volumeId: "v" } }) });
    const request = { name: "n", volumeCapabilities: [publish.volumeCapability] };
    expect(await caller.call("CreateVolume", request, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "INTERNAL", message: "malformed reply: volume.capacity_bytes must not be negative" },
    });
  });

  it("keeps apart what never left the far side", async () => {
    const { plugin, far, caller } = await serving({});
    await far.close();
    plugin.calls.length = 0;
    expect(await caller.call("ControllerPublishVolume", publish, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "UNAVAILABLE", sent: false },
    });
    expect(plugin.calls).toEqual([]);
  });

  it("has a span of its own around the span of the RPC, so that attempts are counted once", async () => {
    const recorder = installSpanRecorder();
    try {
      const { caller } = await serving({ deleteVolume: async () => ({}) });
      await caller.call("DeleteVolume", { volumeId: "v" }, { signal: signal(), subject: { volume: "vol" } });
      const [outer, ...more] = recorder.named("relay csi.v1.Controller/DeleteVolume");
      const rpcs = recorder.named("csi.v1.Controller/DeleteVolume");
      expect(more).toEqual([]);
      expect(outer).toMatchObject({ kind: SpanKind.INTERNAL, attributes: { "holdfast.volume": "vol" } });
      expect(rpcs).toMatchObject([{ kind: SpanKind.CLIENT, parentSpanId: outer?.spanId }]);
    } finally {
      recorder.uninstall();
    }
  });
});
