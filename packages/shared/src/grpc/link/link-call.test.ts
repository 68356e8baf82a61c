/** What becomes of a call whose server answers by the rules of gRPC, or breaks one of them. */
import { constants } from "node:http2";
import { type ClientError, Metadata, Status } from "nice-grpc";
import { describe, expect, test } from "vitest";
import { grpcHeaders, type PeerCall, reply, useLinkPeer, wireFrame, wireReset } from "../../testing/link-peer.ts";

const peerThat = useLinkPeer();
const say = "/holdfast.test.v1.Echo/Say";

/** How a call to such a peer failed; the peer saw that call and no other. */
async function failure(answer: (call: PeerCall) => void, options?: Parameters<typeof peerThat>[1]) {
  const peer = await peerThat(answer, options);
  const error: ClientError = await peer.client.say({ text: "hello" }).then(
    ({ text }) => {
      throw new Error(`the call succeeded with ${text}`);
    },
    (thrown) => thrown,
  );
  expect(peer.asked).toEqual([`${say} {"text":"hello"}`]);
  return { code: error.code, details: error.details, peer };
}

describe("a call that is answered", () => {
  test("brings the message, and both sides part without a reset", async () => {
    const peer = await peerThat(({ stream, text }) => reply(stream, [wireFrame(`echo of ${text}`)]));
    expect(await peer.client.say({ text: "a" })).toEqual({ text: 'echo of {"text":"a"}' });
    expect(peer.asked).toEqual([`${say} {"text":"a"}`]);
    await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_NO_ERROR]);
  });

  test("takes what was sent with it there, and what was said with the answer back", async () => {
    const seen: unknown[] = [];
    const peer = await peerThat(({ stream, headers }) => {
      seen.push(headers["x-sent"], headers["x-sent-bin"], headers["grpc-timeout"]);
      seen.push(headers[":method"], headers["te"], headers["content-type"], headers[":authority"]);
      stream.respond({ ...grpcHeaders, "x-head": "h", "x-head-bin": "AP8=" }, { waitForTrailers: true });
      stream.on("wantTrailers", () =>
        stream.sendTrailers({
          "grpc-status": "0",
          "x-tail": "t",
          "x-tail-bin": Buffer.from([1, 0, 200]).toString("base64"),
        }),
      );
      stream.end(wireFrame("a"));
    });
    let head = Metadata();
    let tail = Metadata();
    await peer.client.say(
      { text: "a" },
      {
        metadata: Metadata({ "x-sent": "s", "x-sent-bin": Buffer.from([9, 0]), "grpc-timeout": "500m" }),
        onHeader: (metadata) => {
          head = metadata;
        },
        onTrailer: (metadata) => {
          tail = metadata;
        },
      },
    );
    expect(seen).toEqual(["s", "CQA=", "500m", "POST", "trailers", "application/grpc", "localhost"]);
    expect([head.get("x-head"), ...(head.get("x-head-bin") ?? [])]).toEqual(["h", 0, 255]);
    expect([tail.get("x-tail"), ...(tail.get("x-tail-bin") ?? [])]).toEqual(["t", 1, 0, 200]);
  });

  test("is put together from as many pieces as it came in", async () => {
    const text = "long ".repeat(50);
    const peer = await peerThat(async ({ stream }) => {
      stream.respond(grpcHeaders, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      for (const byte of wireFrame(text)) await new Promise((sent) => stream.write(Buffer.from([byte]), sent));
      stream.end();
    });
    expect(await peer.client.say({ text: "a" })).toEqual({ text });
  });

  test("ends as soon as all of it is there, although the request is still on its way", async () => {
    const peer = await peerThat(({ stream }) => reply(stream, [wireFrame("early")]), { deaf: true });
    expect(await peer.client.say({ text: "x".repeat(3_000_000) })).toEqual({ text: "early" });
    peer.link.close();
    await expect.poll(() => peer.link.isGone()).toBe(true);
  });

  test("passes over what the server says before its headers", async () => {
    const peer = await peerThat(({ stream }) => {
      stream.additionalHeaders({ ":status": 103, link: "</x>" });
      reply(stream, [wireFrame("a")]);
    });
    expect(await peer.client.say({ text: "a" })).toEqual({ text: "a" });
  });

  test("comes two hundred times at once, each with its own answer", async () => {
    const held: PeerCall[] = [];
    const peer = await peerThat((call) => {
      held.push(call);
      if (held.length === 200) for (const { stream, text } of held.toReversed()) reply(stream, [wireFrame(text)]);
    });
    const texts = Array.from({ length: 200 }, (_, i) => `n${i}`);
    const answers = await Promise.all(texts.map((text) => peer.client.say({ text })));
    expect(answers).toEqual(texts.map((text) => ({ text: JSON.stringify({ text }) })));
    expect(peer.asked).toEqual(texts.map((text) => `${say} {"text":"${text}"}`));
  });
});

describe("a status of the server", () => {
  test("may be all that comes", async () => {
    const found = await failure(({ stream }) =>
      stream.respond(
        { ...grpcHeaders, "grpc-status": "5", "grpc-message": "no such volume: %C3%A4" },
        { endStream: true },
      ),
    );
    expect(found).toMatchObject({ code: Status.NOT_FOUND, details: "no such volume: ä" });
  });

  test("that is all that comes is told although the request is still on its way", async () => {
    const peer = await peerThat(
      ({ stream }) =>
        stream.respond({ ...grpcHeaders, "grpc-status": "8", "grpc-message": "full" }, { endStream: true }),
      { deaf: true },
    );
    await expect(peer.client.say({ text: "x".repeat(3_000_000) })).rejects.toMatchObject({
      code: Status.RESOURCE_EXHAUSTED,
      details: "full",
    });
    peer.link.close();
    await expect.poll(() => peer.link.isGone()).toBe(true);
  });

  test("may come after a message, which then counts for nothing", async () => {
    const found = await failure(({ stream }) =>
      reply(stream, [wireFrame("half done")], { "grpc-status": "10", "grpc-message": "aborted" }),
    );
    expect(found).toMatchObject({ code: Status.ABORTED, details: "aborted" });
  });

  test("of success without a message is none", async () => {
    expect(await failure(({ stream }) => reply(stream, []))).toMatchObject({ code: Status.UNIMPLEMENTED });
  });

  test("of success is worth nothing if the message before it was cut short", async () => {
    const whole = wireFrame("cut");
    for (const cut of [whole.subarray(0, 3), whole.subarray(0, -1), Buffer.concat([whole, whole.subarray(0, 6)])])
      expect(await failure(({ stream }) => reply(stream, [cut]))).toMatchObject({ code: Status.INTERNAL });
  });

  test("that is larger than headers can be costs the connection, but no call hangs", async () => {
    const { code, peer } = await failure(({ stream }) =>
      reply(stream, [], { "grpc-status": "9", "grpc-message": "~".repeat(100_000) }),
    );
    expect(code).toBe(Status.UNAVAILABLE);
    await peer.link.lost;
  });
});

test("a server is told how large its headers may be: larger ones would cost the connection", async () => {
  const told: unknown[] = [];
  const peer = await peerThat(({ stream, session }) => {
    told.push(session.remoteSettings.maxHeaderListSize, session.remoteSettings.enablePush);
    reply(stream, [wireFrame("a")]);
  });
  await peer.client.say({ text: "a" });
  expect(told).toEqual([65_535, false]);
});

describe("a server that breaks the rules", () => {
  test.each([
    [404, Status.UNIMPLEMENTED],
    [503, Status.UNAVAILABLE],
  ])("with HTTP status %i is understood, with and without a page of text", async (http, code) => {
    const bare = await failure(({ stream }) => stream.respond({ ":status": http }, { endStream: true }));
    expect(bare).toMatchObject({ code, details: `the server answered HTTP status ${http}` });
    const page = await failure(({ stream }) => {
      stream.respond({ ":status": http, "content-type": "text/html" });
      stream.end("<html>nothing here, and a good deal of it</html>");
    });
    expect(page).toMatchObject({ code, details: `the server answered HTTP status ${http}` });
  });

  test("and ends without a status has failed, even after a whole message", async () => {
    for (const body of ["", wireFrame("a")]) {
      const found = await failure(({ stream }) => {
        stream.respond(grpcHeaders);
        stream.end(body);
      });
      expect(found).toMatchObject({ code: Status.INTERNAL, details: "the call ended without a status of gRPC" });
    }
  });

  test("and sends trailers without a status has failed", async () => {
    const found = await failure(({ stream }) => reply(stream, [wireFrame("a")], { "x-tail": "t" }));
    expect(found).toMatchObject({ code: Status.INTERNAL });
  });

  test("and sends two messages for one has failed, at once", async () => {
    const found = await failure(({ stream }) => reply(stream, [wireFrame("a"), wireFrame("b")]));
    expect([Status.UNIMPLEMENTED, Status.INTERNAL]).toContain(found.code);
  }, 5_000);

  test("and sends too large a message is cut off before the message is there", async () => {
    const found = await failure(
      ({ stream }) => {
        stream.respond(grpcHeaders);
        stream.write(wireFrame("x", { length: 1_001 }));
      },
      { maxMessageBytes: 1_000 },
    );
    expect(found).toMatchObject({ code: Status.RESOURCE_EXHAUSTED, details: expect.stringContaining("1000 bytes") });
    await expect.poll(() => found.peer.ended).toEqual([constants.NGHTTP2_CANCEL]);
  });

  test("and compresses although it was not asked to is cut off", async () => {
    const found = await failure(({ stream }) => reply(stream, [wireFrame("x", { flag: 1 })]));
    expect(found).toMatchObject({ code: Status.INTERNAL, details: expect.stringContaining("compressed") });
  });

  test.each([
    ["REFUSED_STREAM", constants.NGHTTP2_REFUSED_STREAM, Status.UNAVAILABLE],
    ["CANCEL", constants.NGHTTP2_CANCEL, Status.CANCELLED],
    ["INTERNAL_ERROR", constants.NGHTTP2_INTERNAL_ERROR, Status.INTERNAL],
    ["PROTOCOL_ERROR", constants.NGHTTP2_PROTOCOL_ERROR, Status.INTERNAL],
    ["ENHANCE_YOUR_CALM", constants.NGHTTP2_ENHANCE_YOUR_CALM, Status.RESOURCE_EXHAUSTED],
    ["NO_ERROR", constants.NGHTTP2_NO_ERROR, Status.INTERNAL],
  ])(
    "and resets with %s ends that call, before its headers and after a message, and no other",
    async (_, reset, code) => {
      expect(await failure(({ stream }) => stream.close(reset))).toMatchObject({ code });
      const later = await failure(({ stream, socket, text }) => {
        if (text.includes("next")) return reply(stream, [wireFrame("fine")]);
        stream.respond(grpcHeaders);
        stream.write(wireFrame("a"), () => socket.write(wireReset(stream.id ?? 0, reset)));
      });
      expect(later).toMatchObject({ code });
      expect(await later.peer.client.say({ text: "next" })).toEqual({ text: "fine" });
    },
  );
});

test("a request that is too large is not sent", async () => {
  const peer = await peerThat(({ stream }) => reply(stream, []), { maxMessageBytes: 100 });
  await expect(peer.client.say({ text: "x".repeat(100) })).rejects.toMatchObject({ code: Status.RESOURCE_EXHAUSTED });
  await expect.poll(() => peer.ended).toEqual([constants.NGHTTP2_CANCEL]);
  expect(peer.asked).toEqual([]);
});
