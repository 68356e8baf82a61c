/** Bodies that do not go over Serve, between two whole ends. */
import { describe, expect, test } from "vitest";
import { HoldfastError } from "../../errors/holdfast-error.ts";
import type { TransferChunk } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { createStreamServices } from "../../testing/stream-services.ts";
import type { CallContext } from "../call-context.ts";
import { maxFrameBytes } from "./serve-wire.ts";

const idle = { asked: 0, served: 0, queuedBytes: 0 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const large = (bytes: number, seed = 7): Buffer =>
  Buffer.from(Uint8Array.from({ length: bytes }, (_, at) => (at * seed) % 251));

describe("a large body", () => {
  test("goes by Transfer, both as a question and as an answer, in both directions", async () => {
    const chunks: TransferChunk[] = [];
    const stream = createStreamServices({
      onChunk: (chunk) => void chunks.push(chunk),
      onAgent: { relay: async ({ request }) => ({ response: request }) },
      onController: { acknowledge: async ({ released }) => ({ forgottenClaimUids: released.map((r) => r.claimUid) }) },
    });
    const request = large(300_000);
    const { response } = await stream.orders.relay({ plugin: "p", request });
    expect(Buffer.compare(response ?? Buffer.alloc(0), request)).toBe(0);
    const released = Array.from({ length: 5_000 }, (_, at) => ({ claimUid: `claim-${at}-${"x".repeat(20)}` }));
    const { forgottenClaimUids } = await stream.requests.acknowledge({ node: "n1", released });
    expect(forgottenClaimUids).toEqual(released.map(({ claimUid }) => claimUid));
    await expect.poll(() => stream.transfers()).toEqual({ open: 0, most: 1 });
    for (const { data } of chunks) expect(data.length).toBeLessThanOrEqual(maxFrameBytes);
    for (const wire of [stream.toAgent, stream.toController])
      for (const frame of wire.frames) expect(frame.length).toBeLessThanOrEqual(maxFrameBytes);
    expect([stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
  });

  test.each([65_400, 65_500, 65_530, 65_536, 65_540])("of %i bytes, around the limit, arrives whole", async (bytes) => {
    const stream = createStreamServices({ onAgent: { relay: async ({ request }) => ({ response: request }) } });
    const { response } = await stream.orders.relay({ request: large(bytes) });
    expect(response?.length).toBe(bytes);
    for (const frame of [...stream.toAgent.frames, ...stream.toController.frames])
      expect(frame.length).toBeLessThanOrEqual(maxFrameBytes);
  });

  test("[O1] has its turn: an agent opens no more than four at once", async () => {
    const stream = createStreamServices({
      onChunk: async () => {
        for (let at = 0; at < 10; at += 1) await turn();
      },
      onAgent: { relay: async ({ request }) => ({ response: request }) },
    });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => stream.orders.relay({ request: large(100_000, at + 1) })),
    );
    for (const [at, { response }] of answers.entries())
      expect(Buffer.compare(response ?? Buffer.alloc(0), large(100_000, at + 1))).toBe(0);
    await expect.poll(() => stream.transfers()).toEqual({ open: 0, most: 4 });
  });

  test("[K1] that is cut short is none, and fails its call as one whose end is not known", async () => {
    let seen = 0;
    const stream = createStreamServices({
      onChunk: (chunk) => {
        if (chunk.endsMessage) throw new Error("the connection was lost");
      },
      onAgent: {
        relay: async () => {
          seen += 1;
          return {};
        },
      },
    });
    const call = stream.orders.relay({ request: large(200_000) });
    await expect(call).rejects.toMatchObject({ kind: "unavailable", reason: "TRANSFER_CUT" });
    expect(seen).toBe(0);
    await expect.poll(() => [stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
    expect(stream.transfers().open).toBe(0);
  });
});

describe("an answer that is a stream", () => {
  test("is handed over as it comes", async () => {
    const steps = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stream = createStreamServices({
      onAgent: {
        async *inventory() {
          yield { header: { node: "n1" } };
          await steps[0]?.promise;
          yield { volume: { volume: "v" } };
          await steps[1]?.promise;
          yield { end: { volumes: 1 } };
        },
      },
    });
    const answers = stream.orders.inventory({})[Symbol.asyncIterator]();
    expect((await answers.next()).value?.header?.node).toBe("n1");
    steps[0]?.resolve();
    expect((await answers.next()).value?.volume?.volume).toBe("v");
    expect(stream.controller.load().asked).toBe(1);
    steps[1]?.resolve();
    expect((await answers.next()).value?.end?.volumes).toBe(1);
    expect((await answers.next()).done).toBe(true);
    await expect.poll(() => [stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
    expect(stream.transfers().open).toBe(0);
  });

  test("may be empty, and may hold empty messages", async () => {
    let messages = 0;
    const stream = createStreamServices({
      onAgent: {
        async *inventory() {
          for (let at = 0; at < messages; at += 1) yield {};
        },
      },
    });
    const all = async () => {
      const found: unknown[] = [];
      for await (const one of stream.orders.inventory({})) found.push(one);
      return found;
    };
    expect(await all()).toEqual([]);
    messages = 3;
    expect(await all()).toHaveLength(3);
  });

  test("[K3] [M2] is held back by who reads it slowly", async () => {
    let made = 0;
    const stream = createStreamServices({
      onAgent: {
        async *relayStream() {
          for (; made < 500; made += 1) yield { response: large(1_000) };
        },
      },
    });
    const answers = stream.orders.relayStream({})[Symbol.asyncIterator]();
    await answers.next();
    for (let at = 0; at < 300; at += 1) await turn();
    expect(made).toBeLessThan(60);
    let read = 1;
    while (!(await answers.next()).done) read += 1;
    expect(read).toBe(500);
  });

  test("[K2] passes on how it failed after some messages", async () => {
    const stream = createStreamServices({
      onAgent: {
        async *inventory() {
          yield { header: { node: "n1" } };
          throw new HoldfastError({ kind: "aborted", reason: "JOURNAL_MOVED", message: "m", metadata: { a: "b" } });
        },
      },
    });
    const answers = stream.orders.inventory({})[Symbol.asyncIterator]();
    await answers.next();
    await expect(answers.next()).rejects.toMatchObject({
      kind: "aborted",
      reason: "JOURNAL_MOVED",
      metadata: { a: "b" },
    });
    await expect.poll(() => stream.agent.load()).toEqual(idle);
  });

  test("[J3] ends on both sides when its reader gives it up", async () => {
    let ended = 0;
    const stream = createStreamServices({
      onAgent: {
        async *inventory(_, { signal }: CallContext) {
          try {
            yield { header: { node: "n1" } };
            await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
          } finally {
            ended += 1;
          }
        },
      },
    });
    for await (const { header } of stream.orders.inventory({})) {
      expect(header?.node).toBe("n1");
      break;
    }
    await expect.poll(() => ended).toBe(1);
    await expect.poll(() => [stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
    await expect.poll(() => stream.transfers().open).toBe(0);
  });

  test("[J3] ends with its stream", async () => {
    let ended = 0;
    const stream = createStreamServices({
      onAgent: {
        async *inventory() {
          try {
            for (;;) yield { header: { node: "n1" } };
          } finally {
            ended += 1;
          }
        },
      },
    });
    const answers = stream.orders.inventory({})[Symbol.asyncIterator]();
    await answers.next();
    stream.cut();
    await expect(
      (async () => {
        while (!(await answers.next()).done);
      })(),
    ).rejects.toMatchObject({ kind: "unavailable", reason: "STREAM_ENDED" });
    await stream.agent.ended;
    expect(ended).toBe(1);
    await expect.poll(() => stream.transfers().open).toBe(0);
  });
});
