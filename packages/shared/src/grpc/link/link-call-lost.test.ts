/** Calls whose connection is lost or retired, and calls that are given up. */
import { constants } from "node:http2";
import { Status } from "nice-grpc";
import { describe, expect, test } from "vitest";
import {
  grpcHeaders,
  type Peer,
  type PeerCall,
  reply,
  useLinkPeer,
  wireFrame,
  wireGoaway,
} from "../../testing/link-peer.ts";

const peerThat = useLinkPeer();
const unavailable = { code: Status.UNAVAILABLE };

/** A peer that answers nothing by itself, with this call in flight. */
async function inFlight(text: string, signal?: AbortSignal) {
  const calls: PeerCall[] = [];
  const peer = await peerThat((call) => void calls.push(call));
  const call = peer.client.say({ text }, signal === undefined ? {} : { signal });
  call.catch(() => undefined);
  await expect.poll(() => calls.length).toBe(1);
  const [got] = calls;
  if (got === undefined) throw new Error("nothing came");
  return { peer, call, got };
}

const asked = (peer: Peer): number => peer.asked.length;

describe("a connection that is lost", () => {
  test.each<[string, (call: PeerCall) => void]>([
    ["before anything was said", ({ socket }) => socket.destroy()],
    ["politely", ({ socket }) => socket.end()],
    ["by the session", ({ session }) => session.destroy()],
    [
      "for an error of the protocol",
      ({ session }) => session.destroy(new Error("broken"), constants.NGHTTP2_PROTOCOL_ERROR),
    ],
    ["with bytes that are no HTTP/2", ({ socket }) => void socket.write("HTTP/1.1 400 Bad Request\r\n\r\n")],
    [
      "after the headers",
      ({ stream, socket }) => {
        stream.respond(grpcHeaders);
        setImmediate(() => socket.destroy());
      },
    ],
    [
      "after a whole message",
      ({ stream, socket }) => {
        stream.respond(grpcHeaders);
        stream.write(wireFrame("a"), () => setImmediate(() => socket.destroy()));
      },
    ],
    [
      "for too many pings",
      ({ session }) => session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from("too_many_pings")),
    ],
  ])("ends its calls as unavailable: %s", async (_, lose) => {
    const { peer, call, got } = await inFlight("a");
    lose(got);
    await expect(call).rejects.toMatchObject(unavailable);
    await peer.link.lost;
    expect(peer.link.isOpen()).toBe(false);
    await expect(peer.client.say({ text: "b" })).rejects.toMatchObject(unavailable);
    expect(asked(peer)).toBe(1);
  });

  test("takes no further call from the moment on that a call of it was lost, and says that it was not sent", async () => {
    const { peer, call, got } = await inFlight("a");
    got.socket.write(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    const next = await call.catch(() => ({
      open: peer.link.isOpen(),
      again: peer.client.say({ text: "b" }).catch(({ details }) => details),
    }));
    if (!("open" in next)) throw new Error("the call was answered");
    expect(await next.again).toContain("not connected");
    expect(next.open).toBe(false);
  });

  test("ends all of its calls, not one of them twice", async () => {
    let socket: PeerCall["socket"] | undefined;
    const peer = await peerThat((call) => {
      socket = call.socket;
    });
    const ends: number[] = [];
    const calls = Array.from({ length: 50 }, (_, i) =>
      peer.client.say({ text: `n${i}` }).catch(({ code }) => ends.push(code)),
    );
    await expect.poll(() => asked(peer)).toBe(50);
    socket?.destroy();
    await Promise.all(calls);
    expect(ends).toEqual(Array(50).fill(Status.UNAVAILABLE));
  });

  test("takes nothing from an answer that was there before", async () => {
    const { call, got } = await inFlight("a");
    reply(got.stream, [wireFrame("in time")]);
    got.stream.on("close", () => got.socket.destroy());
    expect(await call).toEqual({ text: "in time" });
  });
});

describe("a server that says goodbye", () => {
  test("answers what is in flight, and is asked nothing more", async () => {
    const { peer, call, got } = await inFlight("a");
    got.session.close();
    await peer.link.lost;
    expect(peer.link.isGone()).toBe(false);
    await expect(peer.client.say({ text: "b" })).rejects.toMatchObject(unavailable);
    reply(got.stream, [wireFrame("the last word")]);
    expect(await call).toEqual({ text: "the last word" });
    expect(asked(peer)).toBe(1);
    await expect.poll(() => peer.link.isGone()).toBe(true);
  });

  test("says it twice, as grpc-go does, and that changes nothing", async () => {
    const { peer, call, got } = await inFlight("a");
    got.session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
    await peer.link.lost;
    got.session.goaway(constants.NGHTTP2_NO_ERROR, 1);
    reply(got.stream, [wireFrame("a")]);
    expect(await call).toEqual({ text: "a" });
  });

  test("and did not take a call leaves it unavailable", async () => {
    const { call, got } = await inFlight("a");
    got.socket.write(wireGoaway(0));
    await expect(call).rejects.toMatchObject(unavailable);
  });
});

describe("a link that is closed here", () => {
  test("takes no new call, answers those in flight, and is gone after them", async () => {
    const { peer, call, got } = await inFlight("a");
    peer.link.close();
    await expect(peer.client.say({ text: "b" })).rejects.toMatchObject(unavailable);
    reply(got.stream, [wireFrame("a")]);
    expect(await call).toEqual({ text: "a" });
    await expect.poll(() => peer.link.isGone()).toBe(true);
    expect(asked(peer)).toBe(1);
  });

  test("ends what is in flight when it is destroyed", async () => {
    const { peer, call } = await inFlight("a");
    peer.link.destroy();
    await expect(call).rejects.toMatchObject(unavailable);
  });
});

describe("a call that is given up", () => {
  test("before it is sent never reaches the server", async () => {
    const peer = await peerThat(({ stream }) => reply(stream, [wireFrame("a")]));
    await expect(peer.client.say({ text: "a" }, { signal: AbortSignal.abort() })).rejects.toThrow("aborted");
    expect(await peer.client.say({ text: "b" })).toEqual({ text: "a" });
    expect(peer.asked).toEqual(['/holdfast.test.v1.Echo/Say {"text":"b"}']);
  });

  test("in the moment it is made leaves nothing behind", async () => {
    const peer = await peerThat(({ stream }) => reply(stream, [wireFrame("a")]));
    const giveUp = new AbortController();
    const call = peer.client.say({ text: "a" }, { signal: giveUp.signal });
    giveUp.abort();
    await expect(call).rejects.toThrow("aborted");
    expect(await peer.client.say({ text: "b" })).toEqual({ text: "a" });
    peer.link.close();
    await expect.poll(() => peer.link.isGone()).toBe(true);
  });

  test("in flight is cancelled at the server, and the link goes on", async () => {
    const giveUp = new AbortController();
    const { peer, call, got } = await inFlight("a", giveUp.signal);
    giveUp.abort();
    await expect(call).rejects.toThrow("aborted");
    await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_CANCEL]);
    expect(got.stream.destroyed).toBe(true);
    expect(peer.link.isOpen()).toBe(true);
  });

  test("after its end stays ended as it was", async () => {
    const giveUp = new AbortController();
    const { peer, call, got } = await inFlight("a", giveUp.signal);
    reply(got.stream, [wireFrame("done")]);
    expect(await call).toEqual({ text: "done" });
    giveUp.abort();
    await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_NO_ERROR]);
  });
});
