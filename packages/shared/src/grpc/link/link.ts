/**
 * One HTTP/2 connection to a server of gRPC: dialled once, never again by itself.
 *
 * N1 `lost` is told as soon as no new call can be made on it, without any call being made; calls in flight may still end well.
 * N2 Nothing is sent to keep it alive: a busy plugin takes a ping for one too many.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../async/clock.ts";

export interface Link {
  /** True once the server has greeted, false when it is lost before. */
  readonly ready: Promise<boolean>;
  /** N1 */
  readonly lost: Promise<void>;
  /** Takes new calls. */
  isOpen(): boolean;
  /** The connection itself is gone, and with it the answers to whatever was in flight. */
  isGone(): boolean;
  /** What was wrong with it, if anything was. */
  trouble(): string | undefined;
  /** Throws when it is not open. */
  request(headers: readonly string[]): ClientHttp2Stream;
  /** No new calls; those in flight run to their end. */
  close(): void;
  /** Everything ends now. */
  destroy(why?: string): void;
}

export interface LinkOptions {
  readonly socket: Socket;
  readonly clock: Pick<Clock, "timer">;
  /** It is given up when the server has not greeted by then. */
  readonly greetingMs: number;
}

/** Megabytes. The bound on what is in flight is ours (message-limits.ts), not that of the library, which ends streams at random. */
const sessionMemory = 1 << 20;

/** A connection has numbers for 2^30 calls; a little before they end, another one has to be dialled. */
const lastStream = 0x7fff_0000;

export function openLink({ socket, clock, greetingMs }: LinkOptions): Link {
  const ready = Promise.withResolvers<boolean>();
  const lost = Promise.withResolvers<void>();
  let open = true;
  let trouble: string | undefined;
  const session: ClientHttp2Session = connect("http://localhost", {
    createConnection: () => socket,
    maxSessionMemory: sessionMemory,
    // A status of more ends its own call if the server heeds this, and the whole connection if it does not.
    settings: { enablePush: false, maxHeaderListSize: 65_535 },
    maxSendHeaderBlockLength: 1 << 24,
  });
  const lose = (): void => {
    open = false;
    ready.resolve(false);
    lost.resolve();
  };
  const close = (): void => {
    lose();
    session.close();
  };
  const destroy = (why?: string): void => {
    trouble ??= why;
    lose();
    session.destroy();
  };
  const stopTimer = clock.timer(greetingMs, () => destroy(`no greeting within ${greetingMs} ms`));
  void ready.promise.then(stopTimer);
  session.once("remoteSettings", () => ready.resolve(true));
  session.once("goaway", close);
  session.on("error", (error: Error) => {
    trouble ??= error.message;
  });
  session.once("close", lose);

  return {
    ready: ready.promise,
    lost: lost.promise,
    isOpen: () => open && !session.closed && !session.destroyed,
    isGone: () => session.destroyed,
    trouble: () => trouble,
    request(headers) {
      const stream = session.request(headers, { endStream: false });
      if ((stream.id ?? 0) > lastStream) close();
      return stream;
    },
    close,
    destroy,
  };
}
