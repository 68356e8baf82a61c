import { connect } from "node:http2";
import { createConnection } from "node:net";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { Volume, VolumeServiceDefinition, WatchVolumesRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { afterEach, describe, expect, test } from "vitest";
import { grpcHeaders, wireFrame } from "../../../../test/support/resource-attacks.ts";
import { unimplemented } from "./unimplemented.ts";
import { watchResources } from "./watch-resources.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** So many resources, each a number, of which messages of 2 KiB are made; and no event ever. */
const resources = (count: number) => {
  const sizes: number[] = [];
  const quiet = createNotifier();
  let read = 0;
  let made = 0;
  return {
    sizes,
    read: () => read,
    made: () => made,
    waiting: quiet.waiting,
    watch: (signal: AbortSignal) =>
      watchResources<number, Volume>({
        feed: {
          head: async () => "0",
          async *watch(_after, until) {
            await quiet.wait(quiet.version(), until);
            yield* [];
          },
        },
        question: "q",
        token: "",
        page: async ({ size, after }) => {
          const first = Number(after ?? 0);
          const items = Array.from({ length: Math.min(size, count - first) }, (_, n) => first + n);
          sizes.push(size);
          read += items.length;
          const next = first + items.length;
          return { items, next: next < count ? String(next) : undefined };
        },
        message: (n) => {
          made += 1;
          return Volume.fromPartial({ id: `v-${n}`, labels: { pad: "x".repeat(2_048) } });
        },
        changeOf: async () => undefined,
        signal,
      }),
  };
};

test("makes a message when it is taken, and reads no more ahead than was taken before", async () => {
  const all = resources(1_000);
  const messages = all.watch(new AbortController().signal);
  let taken = 0;
  for await (const { kind } of messages) {
    if (kind === WatchKind.WATCH_KIND_SYNCED) break;
    taken += 1;
    expect(all.made()).toBe(taken);
    expect(all.read() - taken).toBeLessThan(Math.max(16, taken));
  }
  expect(taken).toBe(1_000);
  expect(all.sizes).toEqual([16, 16, 32, 64, 128, 200, 200, 200, 200]);
});

describe("a caller that opens a watch and never reads it", () => {
  const request = WatchVolumesRequest.encode(WatchVolumesRequest.fromPartial({})).finish();
  const open = async (count: number) => {
    const all = resources(count);
    const socket = await tempSocket();
    cleanups.push(socket.remove);
    const metrics = createMetrics();
    const server = createGrpcServer({ log: createMemoryLogger(), metrics });
    let ended = 0;
    const implementation = unimplemented(VolumeServiceDefinition, {
      async *watchVolumes(_request, { signal }) {
        try {
          for await (const { resource, ...rest } of all.watch(signal)) yield { ...rest, volume: resource };
        } finally {
          ended += 1;
        }
      },
    });
    server.add(VolumeServiceDefinition, implementation);
    await server.listen(socket.address);
    cleanups.push(() => server.stop({ graceMs: 0 }));
    const session = connect("http://localhost", {
      createConnection: () => createConnection(socket.address.replace(/^unix:(\/\/)?/, "")),
    }).on("error", () => undefined);
    cleanups.push(() => session.destroy());
    const stream = session.request(grpcHeaders("/holdfast.v1.VolumeService/WatchVolumes"));
    stream.on("error", () => undefined).end(wireFrame(request));
    await new Promise((resolve) => stream.once("response", resolve));
    const streams = async () => /^holdfast_grpc_server_streams\{.*\} (\d+)$/m.exec(await metrics.text())?.[1];
    return { all, session, streams, ended: () => ended };
  };
  test("is sent what its window takes, holds a bounded rest, and all of it ends with its connection", async () => {
    const { all, session, streams, ended } = await open(1_000_000);
    let before = -1;
    await expect
      .poll(() => {
        const same = all.made() === before;
        before = all.made();
        return same && before > 0;
      })
      .toBe(true);
    // A window of 64 KiB is 31 of them; the call has 16 before it waits, and one is under way.
    expect(all.made()).toBeLessThanOrEqual(64);
    expect(all.read()).toBeLessThanOrEqual(128);
    expect(await streams()).toBe("1");
    session.destroy();
    await expect.poll(ended).toBe(1);
    await expect.poll(streams).toBe("0");
  });

  test("ends with its connection while it waits for an event too", async () => {
    const { all, session, streams, ended } = await open(1);
    await expect.poll(all.waiting).toBe(1);
    session.destroy();
    await expect.poll(ended).toBe(1);
    expect(all.waiting()).toBe(0);
    await expect.poll(streams).toBe("0");
  });
});
