/** Streams of messages: all of them, in order, and no more held than HTTP/2 lets the server send. */
import { constants, type ServerHttp2Stream } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { Status } from "nice-grpc";
import { describe, expect, test } from "vitest";
import { grpcHeaders, type PeerCall, reply, useLinkPeer, wireFrame } from "../../testing/link-peer.ts";

const peerThat = useLinkPeer();
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Writes as fast as it may, and tells how many bytes HTTP/2 took off its hands. */
function pour(stream: ServerHttp2Stream, frames: readonly Buffer[], trailers = { "grpc-status": "0" }) {
  let taken = 0;
  stream.respond(grpcHeaders, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  for (const frame of frames)
    stream.write(frame, (error) => {
      if (error == null) taken += frame.length;
    });
  stream.end();
  return { taken: () => taken };
}

const numbered = (count: number, size = 0): Buffer[] =>
  Array.from({ length: count }, (_, i) => wireFrame(`${i} ${"x".repeat(size)}`));
const numberOf = ({ text }: { text: string }): number => Number(text.split(" ")[0]);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** The number of bytes that no longer changes. */
async function settled(taken: () => number): Promise<number> {
  for (let before = -1; ; ) {
    const now = taken();
    if (now === before) return now;
    before = now;
    await sleep(50);
  }
}

describe("a stream", () => {
  test("of nothing ends well", async () => {
    const peer = await peerThat(({ stream }) => reply(stream, []));
    const got: number[] = [];
    for await (const message of peer.client.watch({ text: "a" })) got.push(numberOf(message));
    expect(got).toEqual([]);
    expect(peer.asked).toEqual(['/holdfast.test.v1.Echo/Watch {"text":"a"}']);
  });

  test("of thousands of messages comes whole and in order to one who reads slowly", async () => {
    const peer = await peerThat(({ stream }) => void pour(stream, numbered(5_000)));
    const got: number[] = [];
    for await (const message of peer.client.watch({ text: "a" })) {
      got.push(numberOf(message));
      if (got.length % 7 === 0) await turn();
    }
    expect(got).toEqual(upTo(5_000));
  });

  test("is held back at the server for as long as nobody reads", async () => {
    const frames = numbered(2_000, 2_000);
    let taken = () => 0;
    const peer = await peerThat(({ stream }) => {
      taken = pour(stream, frames).taken;
    });
    const messages = peer.client.watch({ text: "a" })[Symbol.asyncIterator]();
    const first = await messages.next();
    const got = first.done === true ? [] : [numberOf(first.value)];
    await expect.poll(() => taken()).toBeGreaterThan(0);
    // A window of 64 KB, what lies in the socket and what the two ends hold: of 4 MB by far the smaller part.
    expect(await settled(taken)).toBeLessThan(400_000);
    for (let next = await messages.next(); next.done !== true; next = await messages.next())
      got.push(numberOf(next.value));
    expect(got).toEqual(upTo(2_000));
  });

  test("that nobody reads does not hold up the other calls of its link", async () => {
    const peer = await peerThat(({ stream, text }) => {
      if (text.includes("pour")) pour(stream, numbered(500, 2_000));
      else reply(stream, [wireFrame("b".repeat(300_000))]);
    });
    const stalled = upTo(10).map(() => peer.client.watch({ text: "pour" })[Symbol.asyncIterator]());
    await Promise.all(stalled.map((messages) => messages.next()));
    expect((await peer.client.say({ text: "b" })).text).toHaveLength(300_000);
  });

  test("brings every message before the error that came after them", async () => {
    for (const count of [1, 20, 500]) {
      const peer = await peerThat(({ stream }) => void pour(stream, numbered(count), { "grpc-status": "10" }));
      const got: number[] = [];
      const reading = (async () => {
        for await (const message of peer.client.watch({ text: "a" })) {
          got.push(numberOf(message));
          await turn();
        }
      })();
      await expect(reading).rejects.toMatchObject({ code: Status.ABORTED });
      expect(got).toEqual(upTo(count));
    }
  });

  // Each fits into the window, so that the server is done while the reader is at its first message.
  test.each([
    ["cut by HTTP/2's frames", numbered(300, 100)],
    ["dividing HTTP/2's frames", upTo(120).map((i) => wireFrame(`${i} `.padEnd(512 - wireFrame("").length)))],
  ])("is never told as whole when the connection is lost with messages still unread: %s", async (_, frames) => {
    let call: PeerCall | undefined;
    const peer = await peerThat((came) => {
      call = came;
      pour(came.stream, frames);
    });
    const messages = peer.client.watch({ text: "a" })[Symbol.asyncIterator]();
    const got: number[] = [];
    const first = await messages.next();
    if (first.done !== true) got.push(numberOf(first.value));
    await sleep(100);
    call?.socket.destroy();
    await expect.poll(() => peer.link.isGone()).toBe(true);
    let code: Status | undefined = Status.OK;
    try {
      for (let next = await messages.next(); next.done !== true; next = await messages.next())
        got.push(numberOf(next.value));
    } catch (error) {
      code = (error as { code?: Status }).code;
    }
    expect(got).toEqual(upTo(got.length));
    if (code === Status.OK) expect(got).toEqual(upTo(frames.length));
    else expect(code).toBe(Status.UNAVAILABLE);
  });

  test("is cut off at the server when its reader leaves", async () => {
    const peer = await peerThat(({ stream }) => void pour(stream, numbered(2_000, 2_000)));
    for await (const message of peer.client.watch({ text: "a" })) if (numberOf(message) === 3) break;
    await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_CANCEL]);
  });

  test.each([
    ["in the window", 300, 100],
    ["in the reader's own buffer", 60, 10],
  ])(
    "leaves nothing behind when its reader leaves after the server did, with messages left %s",
    async (_, count, size) => {
      const peer = await peerThat(({ stream }) => void pour(stream, numbered(count, size)));
      for await (const message of peer.client.watch({ text: "a" })) {
        if (numberOf(message) !== 2) continue;
        await sleep(100);
        break;
      }
      peer.link.close();
      await expect.poll(() => peer.link.isGone()).toBe(true);
    },
  );

  test("that is given up brings nothing more, although its end had already come", async () => {
    const giveUp = new AbortController();
    const peer = await peerThat(({ stream }) => void pour(stream, numbered(500)));
    const got: number[] = [];
    const reading = (async () => {
      for await (const message of peer.client.watch({ text: "a" }, { signal: giveUp.signal })) {
        got.push(numberOf(message));
        if (got.length > 1) continue;
        await sleep(100);
        giveUp.abort();
      }
    })();
    await expect(reading).rejects.toThrow("aborted");
    // What grpc-js had taken off the call is its reader's already.
    expect(got.length).toBeLessThan(100);
    peer.link.close();
    await expect.poll(() => peer.link.isGone()).toBe(true);
  });

  test("with a message that is compressed or too large ends there", async () => {
    for (const [bad, code] of [
      [wireFrame("x", { flag: 1 }), Status.INTERNAL],
      [wireFrame("x", { length: 2 ** 31 }), Status.RESOURCE_EXHAUSTED],
    ] as const) {
      const peer = await peerThat(async ({ stream }) => {
        stream.respond(grpcHeaders);
        stream.write(wireFrame("0 "));
        await sleep(20);
        stream.write(bad);
      });
      const got: number[] = [];
      const reading = (async () => {
        for await (const message of peer.client.watch({ text: "a" })) got.push(numberOf(message));
      })();
      await expect(reading).rejects.toMatchObject({ code });
      expect(got).toEqual([0]);
      await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_CANCEL]);
    }
  });
});
