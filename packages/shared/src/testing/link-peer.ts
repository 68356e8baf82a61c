/** A server of HTTP/2 on a unix socket that does as a test says, right or wrong, and a client of it over one link. */
import { createServer, type IncomingHttpHeaders, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { createConnection, type Socket } from "node:net";
import { type Channel, createClient } from "nice-grpc";
import { afterEach } from "vitest";
import { systemClock } from "../async/clock.ts";
import { type Link, openLink } from "../grpc/link/link.ts";
import { createLinkChannel } from "../grpc/link/link-channel.ts";
import { EchoDefinition } from "./echo-service.ts";
import { tempSocket } from "./temp-socket.ts";

/** One message as it goes over the wire; with another flag or length, what no honest server sends. */
export function wireFrame(text: string, { flag = 0, length }: { flag?: number; length?: number } = {}): Buffer {
  const body = Buffer.from(JSON.stringify({ text }));
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(length ?? body.length, 1);
  return Buffer.concat([head, body]);
}

export const grpcHeaders = { ":status": 200, "content-type": "application/grpc" };

/** Headers, the frames, and trailers with this status. */
export function reply(
  stream: ServerHttp2Stream,
  frames: readonly Buffer[],
  trailers: Record<string, string> = { "grpc-status": "0" },
): void {
  stream.respond(grpcHeaders, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  for (const frame of frames) stream.write(frame);
  stream.end();
}

/** A GOAWAY with the last stream that the server has taken: Node itself cannot say 0. */
export function wireGoaway(lastStream: number): Buffer {
  const frame = Buffer.alloc(9 + 8);
  frame[2] = 8;
  frame[3] = 7;
  frame.writeUInt32BE(lastStream, 9);
  return frame;
}

/** A RST_STREAM: after a message, Node itself ends the stream in peace before it. */
export function wireReset(stream: number, code: number): Buffer {
  const frame = Buffer.alloc(9 + 4);
  frame[2] = 4;
  frame[3] = 3;
  frame.writeUInt32BE(stream, 5);
  frame.writeUInt32BE(code, 9);
  return frame;
}

export interface PeerCall {
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  readonly socket: Socket;
  readonly headers: IncomingHttpHeaders;
  /** What was asked; empty for a peer that does not read. */
  readonly text: string;
}

export interface Peer {
  /** What arrived, in order, as "/path text". */
  readonly asked: readonly string[];
  /** The code with which each stream ended, in the order of their ends. */
  readonly ended: readonly number[];
  readonly link: Link;
  readonly channel: Channel;
  readonly client: ReturnType<typeof createClient<typeof EchoDefinition>>;
}

export interface PeerOptions {
  readonly maxMessageBytes?: number;
  /** Answers at once and never takes what is asked off the wire. */
  readonly deaf?: boolean;
}

/** Within one test file; whatever a test made is gone when it is over. */
export function useLinkPeer(): (
  answer: (call: PeerCall) => void | Promise<void>,
  options?: PeerOptions,
) => Promise<Peer> {
  let stack = new AsyncDisposableStack();
  afterEach(async () => {
    const made = stack;
    stack = new AsyncDisposableStack();
    await made.disposeAsync();
  });

  return async (answer, { maxMessageBytes = 4 * 1024 * 1024, deaf = false } = {}) => {
    const home = await tempSocket();
    stack.defer(() => home.remove());
    const asked: string[] = [];
    const ended: number[] = [];
    const sockets = new Set<Socket>();
    const server = createServer({ maxSessionMemory: 1_000, maxSendHeaderBlockLength: 1 << 24 });
    server.on("connection", (socket: Socket) => sockets.add(socket));
    server.on("sessionError", () => undefined);
    server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      const session = stream.session as ServerHttp2Session | undefined;
      const [socket] = sockets;
      if (session === undefined || socket === undefined) throw new Error("a stream without a session");
      stream.on("error", () => undefined);
      stream.on("close", () => ended.push(stream.rstCode));
      const chunks: Buffer[] = [];
      const begin = (): void => {
        // A call that was reset before its message is none.
        if (!deaf && chunks.length === 0) return;
        const text = Buffer.concat(chunks).subarray(5).toString();
        asked.push(`${headers[":path"]} ${text}`);
        void answer({ stream, session, socket, headers, text });
      };
      if (deaf) {
        stream.once("readable", () => undefined);
        begin();
      } else stream.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", begin);
    });
    await new Promise<void>((resolve) => server.listen(home.path, resolve));
    stack.defer(() => {
      for (const socket of sockets) socket.destroy();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    });
    const link = openLink({ socket: createConnection(home.path), clock: systemClock, greetingMs: 5_000 });
    stack.defer(() => link.destroy());
    if (!(await link.ready)) throw new Error("the peer did not greet");
    const channel = createLinkChannel({
      link: () => link,
      target: home.address,
      authority: "localhost",
      maxMessageBytes,
      close: () => link.close(),
    });
    return { asked, ended, link, channel, client: createClient(EchoDefinition, channel) };
  };
}
