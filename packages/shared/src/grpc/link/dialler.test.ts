import {
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { createConnection, createServer, type Server } from "node:net";
import { createClient } from "nice-grpc";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createManualClock, type ManualClock } from "../../async/manual-clock.ts";
import { EchoDefinition } from "../../testing/echo-service.ts";
import { reply, wireFrame } from "../../testing/link-peer.ts";
import { type TempSocket, tempSocket } from "../../testing/temp-socket.ts";
import { createDialler, type Dialler } from "./dialler.ts";
import type { Keepalive } from "./link.ts";
import { createLinkChannel } from "./link-channel.ts";

let home: TempSocket;
let clock: ManualClock;
let dials: number;
let stack: AsyncDisposableStack;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  home = await tempSocket();
  stack.defer(() => home.remove());
  clock = createManualClock();
  dials = 0;
});
afterEach(() => stack.disposeAsync());

/** The longest pause each time. */
const dialler = (keepalive?: Keepalive): Dialler => {
  const dial = () => {
    dials += 1;
    return createConnection(home.path);
  };
  const made = createDialler({ dial, clock, random: () => 0.999, keepalive });
  stack.defer(() => made.close());
  return made;
};

const clientOf = ({ link, close }: Dialler) =>
  createClient(
    EchoDefinition,
    createLinkChannel({ link, target: home.address, authority: "a.example:1", maxMessageBytes: 1 << 20, close }),
  );

interface Echo {
  readonly sessions: ServerHttp2Session[];
  readonly asked: string[];
  /** The answers that are held back. */
  readonly late: (() => void)[];
  stop(): Promise<void>;
}

/** Says back what it hears; what begins with "never" is heard and not answered, what begins with "late" when the test says so. */
const startEcho = async (): Promise<Echo> => {
  const server: Http2Server = createHttp2Server();
  const [sessions, asked, late]: [ServerHttp2Session[], string[], (() => void)[]] = [[], [], []];
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      const { text } = JSON.parse(Buffer.concat(chunks).subarray(5).toString()) as { text: string };
      asked.push(`${headers[":authority"]} ${text}`);
      if (text.startsWith("late")) late.push(() => reply(stream, [wireFrame(text)]));
      else if (!text.startsWith("never")) reply(stream, [wireFrame(text)]);
    });
  });
  await new Promise<void>((resolve) => server.listen(home.path, resolve));
  const stop = async (): Promise<void> => {
    for (const session of sessions) session.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  stack.defer(async () => void (await stop().catch(() => undefined)));
  return { sessions, asked, late, stop };
};

/** Takes connections and does with them as told, without a word of HTTP/2 of its own. */
const startMute = async (take: (bytes: Buffer) => Buffer | undefined): Promise<Server> => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => {
      const said = take(bytes);
      if (said !== undefined) socket.write(said);
    });
    stack.defer(() => void socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(home.path, resolve));
  stack.defer(() => void server.close());
  return server;
};

describe("a dialler", () => {
  test("dials once for all that call meanwhile, and keeps the link for the next", async () => {
    const echo = await startEcho();
    const client = clientOf(dialler());
    const said = await Promise.all(["a", "b", "c"].map((text) => client.say({ text })));
    expect(said.map(({ text }) => text)).toEqual(["a", "b", "c"]);
    expect((await client.say({ text: "d" })).text).toBe("d");
    expect(dials).toBe(1);
    expect(echo.asked).toEqual(["a", "b", "c", "d"].map((text) => `a.example:1 ${text}`));
  });

  test("fails at once for a while after nobody was there, for longer each time, and finds who comes", async () => {
    const client = clientOf(dialler());
    const refused = (): Promise<unknown> => expect(client.say({ text: "a" })).rejects.toThrow(/not connected.*ENOENT/);
    await refused();
    await refused();
    expect(dials).toBe(1);
    await clock.advance(99);
    await refused();
    expect(dials).toBe(1);
    await clock.advance(1);
    await refused();
    expect(dials).toBe(2);
    await clock.advance(199);
    await refused();
    expect(dials).toBe(2);
    const echo = await startEcho();
    await clock.advance(1);
    expect((await client.say({ text: "b" })).text).toBe("b");
    expect(dials).toBe(3);
    expect(echo.asked).toEqual(["a.example:1 b"]);
  });

  test("dials anew for the first call after a link was lost, and fails the one that was in flight", async () => {
    const first = await startEcho();
    const client = clientOf(dialler());
    const lost = client.say({ text: "never" });
    const failed = expect(lost).rejects.toThrow(/UNAVAILABLE.*connection was lost/);
    await expect.poll(() => first.asked).toEqual(["a.example:1 never"]);
    await first.stop();
    await failed;
    const next = await startEcho();
    expect((await client.say({ text: "b" })).text).toBe("b");
    expect([dials, next.asked]).toEqual([2, ["a.example:1 b"]]);
  });

  test("gives up on who takes the connection and does not greet, and tells every call", async () => {
    await startMute(() => undefined);
    const client = clientOf(dialler());
    const calls = ["a", "b"].map((text) => expect(client.say({ text })).rejects.toThrow(/no greeting within 5000 ms/));
    await expect.poll(() => clock.pending()).toBe(1);
    await clock.advance(5_000);
    await Promise.all(calls);
    expect([dials, clock.pending()]).toEqual([1, 0]);
  });

  test("lets calls in flight end when it is closed, and takes no more", async () => {
    const echo = await startEcho();
    const lines = dialler();
    const client = clientOf(lines);
    expect((await client.say({ text: "a" })).text).toBe("a");
    const last = client.say({ text: "late" });
    await expect.poll(() => echo.late.length).toBe(1);
    lines.close();
    echo.late[0]?.();
    expect((await last).text).toBe("late");
    await expect(client.say({ text: "c" })).rejects.toThrow(/not connected.*closed/);
    expect([dials, echo.asked.length]).toEqual([1, 2]);
  });

  test("a call that is given up while it is dialled is never sent", async () => {
    const echo = await startEcho();
    const client = clientOf(dialler());
    const giveUp = new AbortController();
    const call = client.say({ text: "a" }, { signal: giveUp.signal });
    giveUp.abort();
    await expect(call).rejects.toThrow(/abort/i);
    expect((await client.say({ text: "b" })).text).toBe("b");
    expect(echo.asked).toEqual(["a.example:1 b"]);
  });
});

describe("keepalive", () => {
  const keepalive = { timeMs: 5_000, timeoutMs: 2_000 };
  /** An empty SETTINGS frame: all that a greeting has to be. */
  const greeting = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const pingFrame = 6;

  test("asks only while a call waits, and goes on with who answers", async () => {
    const echo = await startEcho();
    let pings = 0;
    const client = clientOf(dialler(keepalive));
    expect((await client.say({ text: "a" })).text).toBe("a");
    echo.sessions[0]?.on("ping", () => {
      pings += 1;
    });
    await clock.advance(5_000);
    expect([pings, clock.pending()]).toEqual([0, 0]);
    const call = client.say({ text: "never" }).catch(() => undefined);
    await expect.poll(() => echo.asked.length).toBe(2);
    for (const wanted of [1, 2]) {
      await clock.advance(5_000);
      await expect.poll(() => pings).toBe(wanted);
      // The timer of the answer is gone, and the next ping waits for its time.
      await expect.poll(() => clock.pending()).toBe(1);
    }
    await echo.stop();
    await call;
  });

  test("ends the calls to who does not answer", async () => {
    const types: number[] = [];
    let greeted = false;
    await startMute((bytes) => {
      // Whole frames as Node writes them, the preface of the connection aside.
      for (let at = greeted ? 0 : 24; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
        types.push(bytes[at + 3] ?? -1);
      const said = greeted ? undefined : greeting;
      greeted = true;
      return said;
    });
    const client = clientOf(dialler(keepalive));
    const call = expect(client.say({ text: "a" })).rejects.toThrow(/UNAVAILABLE.*no answer to a ping within 2000 ms/);
    await expect.poll(() => types.includes(0)).toBe(true);
    await clock.advance(5_000);
    await expect.poll(() => types.filter((type) => type === pingFrame).length).toBe(1);
    await clock.advance(2_000);
    await call;
    expect(clock.pending()).toBe(0);
  });
});
