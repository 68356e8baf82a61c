import { GetMetadataAllocatedRequest, GetMetadataAllocatedResponse } from "@holdfast/shared/gen/csi/v1/csi";
import { createTracing } from "@holdfast/shared/tracing";
import { ServerError, Status } from "nice-grpc";
import { describe, expect, it } from "vitest";
import type { CallReport } from "./csi-exchange.ts";
import type { CallOutcome } from "./outcome.ts";
import type { PluginConnection } from "./plugin-connection.ts";
import { useConnectionFixture } from "./testing/connection-fixture.ts";
import { installSpanRecorder } from "./testing/span-recorder.ts";
import type { TinyHandlers } from "./testing/tiny-plugin.ts";

const { signal, start, connect } = useConnectionFixture();

const serving = async (
  getMetadataAllocated: TinyHandlers["getMetadataAllocated"],
  options: Parameters<typeof connect>[0] = {},
) => {
  const handlers: TinyHandlers = getMetadataAllocated === undefined ? {} : { getMetadataAllocated };
  const plugin = await start({ pluginServices: [1, 4], handlers });
  const connection = connect(options);
  await connection.whenReady(signal());
  return { plugin, connection };
};

const block = (n: number) => ({
  volumeCapacityBytes: 100n,
  blockMetadata: [{ byteOffset: BigInt(n * 10), sizeBytes: 10n }],
});

const offsets = async (connection: PluginConnection, deadlineMs = 60_000): Promise<bigint[]> => {
  const seen: bigint[] = [];
  const request = { snapshotId: "s", secrets: { key: "stream-canary" } };
  for await (const reply of connection.stream("GetMetadataAllocated", request, { signal: signal(), deadlineMs }))
    seen.push(...reply.blockMetadata.map(({ byteOffset }) => byteOffset));
  return seen;
};

describe("a stream", () => {
  it("yields every message and ends", async () => {
    const { connection } = await serving(async function* () {
      for (let n = 0; n < 5; n += 1) yield block(n);
    });
    expect(await offsets(connection)).toEqual([0n, 10n, 20n, 30n, 40n]);
  });

  it("that breaks throws, with what came before already seen and no secret in the words", async () => {
    const { connection } = await serving(async function* ({ secrets }) {
      yield block(0);
      throw new ServerError(Status.INTERNAL, `cannot read with ${secrets["key"]}`);
    });
    const seen: bigint[] = [];
    const reading = (async () => {
      const request = { snapshotId: "s", secrets: { key: "stream-canary" } };
      for await (const reply of connection.stream("GetMetadataAllocated", request, { signal: signal() }))
        seen.push(...reply.blockMetadata.map(({ byteOffset }) => byteOffset));
    })();
    const error = await reading.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ kind: "internal", reason: "STREAM_BROKEN", metadata: { code: "INTERNAL" } });
    expect(String(error)).not.toContain("canary");
    expect(seen).toEqual([0n]);
  });

  it("that falls silent ends by its deadline, counted between messages", async () => {
    const { connection } = await serving(async function* () {
      yield block(0);
      yield block(1);
      await new Promise<never>(() => undefined);
    });
    await expect(offsets(connection, 80)).rejects.toMatchObject({ metadata: { code: "DEADLINE_EXCEEDED" } });
  });

  it("with a time of its own ends by that, however much it says meanwhile", async () => {
    const { connection } = await serving(async function* (_, { signal: ended }) {
      while (!ended.aborted) {
        yield block(0);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    });
    const options = { signal: signal(), totalMs: 200 };
    const reading = (async () => {
      for await (const _ of connection.stream("GetMetadataAllocated", { snapshotId: "s" }, options));
    })();
    await expect(reading).rejects.toMatchObject({ metadata: { code: "DEADLINE_EXCEEDED" } });
  });

  it("whose consumer is slow does not run out of time meanwhile", async () => {
    const { connection } = await serving(async function* () {
      for (let n = 0; n < 3; n += 1) yield block(n);
    });
    let count = 0;
    const options = { signal: signal(), deadlineMs: 60 };
    for await (const _ of connection.stream("GetMetadataAllocated", { snapshotId: "s" }, options)) {
      count += 1;
      await new Promise((resolve) => setTimeout(resolve, 90));
    }
    expect(count).toBe(3);
  });

  it("that is left early is cancelled at the plugin", async () => {
    const cancelled = Promise.withResolvers<void>();
    const { connection } = await serving(async function* (_, { signal: ended }) {
      ended.addEventListener("abort", () => cancelled.resolve());
      for (let n = 0; ; n += 1) {
        yield block(n);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    for await (const _ of connection.stream("GetMetadataAllocated", { snapshotId: "s" }, { signal: signal() })) break;
    await cancelled.promise;
  });

  it("with a malformed message throws, and one that is not offered is never opened", async () => {
    const { connection } = await serving(async function* () {
      yield { blockMetadata: [{ byteOffset: -1n, sizeBytes: 1n }] };
    });
    await expect(offsets(connection)).rejects.toThrow("malformed reply: block_metadata[0].byte_offset");
    const without = await start({ socketPath: `${connection.socketPath}.x.sock`, pluginServices: [1] });
    const other = connect({ socketPath: `${connection.socketPath}.x.sock` });
    await other.whenReady(signal());
    await expect(offsets(other)).rejects.toMatchObject({ kind: "unimplemented" });
    expect(without.calls).not.toContain("GetMetadataAllocated");
  });

  it("can be relayed as bytes", async () => {
    const { connection } = await serving(async function* () {
      yield block(7);
      throw new ServerError(Status.ABORTED, "busy");
    });
    const bytes = GetMetadataAllocatedRequest.encode(
      GetMetadataAllocatedRequest.fromPartial({ snapshotId: "s" }),
    ).finish();
    const items: CallOutcome<Uint8Array>[] = [];
    for await (const item of connection.relayStream("GetMetadataAllocated", bytes, { signal: signal() }))
      items.push(item);
    expect(items).toMatchObject([
      { outcome: "done" },
      { outcome: "unknown", failure: { code: "ABORTED", message: "busy", sent: true } },
    ]);
    const [first] = items;
    if (first?.outcome !== "done") throw new Error("no first message");
    expect(GetMetadataAllocatedResponse.decode(first.value).blockMetadata).toEqual([
      { byteOffset: 70n, sizeBytes: 10n },
    ]);
  });

  it("has one span for its whole length, whose traceparent reaches the plugin, and one report", async () => {
    const recorder = installSpanRecorder();
    try {
      const reports: CallReport[] = [];
      const onCall = (report: CallReport): void => void reports.push(report);
      const { plugin, connection } = await serving(
        async function* () {
          yield block(0);
          yield block(1);
        },
        { onCall },
      );
      await createTracing("test").span("backup", {}, () => offsets(connection));
      const [backup] = recorder.named("backup");
      const spans = recorder.named("csi.v1.SnapshotMetadata/GetMetadataAllocated");
      expect(spans).toMatchObject([
        {
          parentSpanId: backup?.spanId,
          ended: true,
          attributes: { "rpc.grpc.status_code": 0, "holdfast.outcome": "done" },
        },
      ]);
      const traceparent = plugin.contexts.get("getMetadataAllocated")?.metadata.get("traceparent");
      expect(traceparent).toBe(`00-${spans[0]?.traceId}-${spans[0]?.spanId}-01`);
      expect(reports.filter(({ method }) => method === "GetMetadataAllocated")).toMatchObject([{ code: "OK" }]);
    } finally {
      recorder.uninstall();
    }
  });
});
