/**
 * One call over a link, in the shape that grpc-js wants of a channel's calls.
 *
 * M1 Its end is told once, after every message that came before it; an end of our own, at once, and nothing after it.
 * M2 A message is handed over only when it was asked for; until then the server is held back by HTTP/2's own flow control.
 * M3 An end of our own is never told from within the call that brings it about.
 */
import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import { type Channel, Status } from "nice-grpc";
import { type CallEnd, endOf, madeUpEnd, metadataOf, silentEnd, toldEnd } from "./call-end.ts";
import type { Link } from "./link.ts";
import { createFrameReader, type FrameFault, frameOf } from "./message-frames.ts";

export type WireCall = ReturnType<Channel["createCall"]>;
type Metadata = Parameters<WireCall["start"]>[0];
type Listener = Parameters<WireCall["start"]>[1];

export interface LinkCallOptions {
  readonly link: () => Link | Promise<Link> | undefined;
  /** /package.Service/Method */
  readonly path: string;
  readonly target: string;
  readonly authority: string;
  readonly maxMessageBytes: number;
  readonly number: number;
}

export function createLinkCall({ link, path, target, authority, maxMessageBytes, number }: LinkCallOptions): WireCall {
  const frames = createFrameReader(maxMessageBytes);
  let waiting: Buffer[] = [];
  let asked = false;
  let listener: Listener | undefined;
  let stream: ClientHttp2Stream | undefined;
  let end: CallEnd | undefined;
  let told = false;
  /** The end is one of our own. */
  let ours = false;
  /** Who asks before anything is sent wants one message, and never asks again. */
  let single: boolean | undefined;
  /** What was sent while the link was being dialled. */
  let held: (() => void)[] | undefined;

  /** M1, M2. Whoever is handed a message may ask for the next one before it returns. */
  const handOver = (): void => {
    while (asked && !told) {
      const message = waiting.shift();
      if (message === undefined) break;
      asked = false;
      listener?.onReceiveMessage(message);
    }
    if (waiting.length > 0) stream?.pause();
    else if (end !== undefined && !told) {
      told = true;
      listener?.onReceiveStatus(end);
    } else stream?.resume();
  };

  const finish = (found: CallEnd): void => {
    if (end !== undefined) return;
    if (single === true && waiting.length > 0 && !asked) {
      give(endOf(Status.INTERNAL, "the server sent more than one message"));
      return;
    }
    end = found;
    // What of the request is still here would wait for a server that has answered.
    if (stream !== undefined && (!stream.writableEnded || stream.writableLength > 0))
      stream.close(constants.NGHTTP2_CANCEL);
    handOver();
  };

  /** M3 */
  const give = (up: CallEnd): void => {
    if (told || ours) return;
    ours = true;
    end = up;
    waiting = [];
    stream?.close(constants.NGHTTP2_CANCEL);
    // What is still in it goes nowhere; one that the server has closed is only gone once it was read.
    stream?.resume();
    queueMicrotask(handOver);
  };

  const whole = (found: CallEnd): CallEnd =>
    found.code === Status.OK && frames.pending() > 0 ? endOf(Status.INTERNAL, "the last message was cut short") : found;

  const watch = (opened: ClientHttp2Stream, link: Link): void => {
    let httpStatus: number | undefined;
    let trailers: CallEnd | undefined;
    let trouble: Error | undefined;
    let allRead = false;
    opened.on("response", (headers: IncomingHttpHeaders & { readonly ":status"?: number }, flags: number) => {
      httpStatus = headers[":status"];
      trailers = toldEnd(headers);
      if (trailers !== undefined && (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) finish(trailers);
      if (trailers === undefined && end === undefined) listener?.onReceiveMetadata(metadataOf(headers));
    });
    opened.on("data", (chunk: Buffer) => {
      // A page of text, say, that goes with an HTTP status.
      if (end !== undefined || (httpStatus !== undefined && httpStatus !== 200)) return;
      for (const message of frames.push(chunk)) waiting.push(message);
      const fault = frames.fault();
      if (fault !== undefined) give(endOfFault(fault, maxMessageBytes));
      else handOver();
    });
    opened.on("trailers", (headers: IncomingHttpHeaders) => {
      trailers = toldEnd(headers) ?? trailers;
      // What came before them may still be on its way through the stream, if it was held back.
      if (trailers !== undefined && opened.readableLength === 0) finish(whole(trailers));
    });
    opened.on("end", () => {
      allRead = true;
      if (trailers !== undefined) finish(whole(trailers));
    });
    opened.on("error", (error: Error) => {
      trouble = error;
    });
    opened.on("close", () => {
      // Success, but with messages that went down with the connection, is none.
      if (trailers !== undefined && (allRead || trailers.code !== Status.OK)) finish(whole(trailers));
      else if (link.isGone()) finish(lostDuring(link));
      else finish(silentEnd(httpStatus, opened.rstCode, trouble));
    });
  };

  const notConnected = (why: string): void => give(madeUpEnd(Status.UNAVAILABLE, `not connected to ${target}: ${why}`));

  const begin = (link: Link, metadata: Metadata): void => {
    if (end !== undefined) return;
    if (!link.isOpen()) {
      notConnected(link.trouble() ?? "the connection was closed");
      return;
    }
    try {
      stream = link.request(headersOf(path, authority, metadata));
    } catch (error) {
      give(madeUpEnd(Status.INTERNAL, `the call could not be sent: ${String(error)}`));
      return;
    }
    watch(stream, link);
  };

  const beginOnce = async (dialled: Promise<Link>, metadata: Metadata): Promise<void> => {
    held = [];
    try {
      begin(await dialled, metadata);
    } catch (error) {
      notConnected(error instanceof Error ? error.message : String(error));
    }
    const later = held;
    held = undefined;
    for (const send of later) send();
  };

  const send = (message: Buffer, callback: (() => void) | undefined): void => {
    if (end === undefined && stream !== undefined) stream.write(frameOf(message), callback);
    else if (callback !== undefined) queueMicrotask(callback);
  };
  const halfClose = (): void => {
    if (end === undefined) stream?.end();
  };

  return {
    start(metadata: Metadata, whoever: Listener) {
      listener = whoever;
      if (end !== undefined) return;
      const found = link();
      if (found === undefined) notConnected("nobody dialled");
      else if (found instanceof Promise) void beginOnce(found, metadata);
      else begin(found, metadata);
    },
    sendMessageWithContext({ callback }, message) {
      if (message.length > maxMessageBytes) {
        give(
          madeUpEnd(
            Status.RESOURCE_EXHAUSTED,
            `the request has ${message.length} bytes, ${maxMessageBytes} may be sent`,
          ),
        );
        return;
      }
      single ??= asked;
      const written = callback === undefined ? undefined : () => callback();
      if (held === undefined) send(message, written);
      else held.push(() => send(message, written));
    },
    startRead() {
      asked = true;
      if (waiting.length > 0) handOver();
    },
    halfClose() {
      if (held === undefined) halfClose();
      else held.push(halfClose);
    },
    cancelWithStatus: (code, details) => give(madeUpEnd(code, details)),
    getPeer: () => target,
    getCallNumber: () => number,
    // Credentials of single calls are not used; who calls is told by metadata.
    setCredentials: () => undefined,
    getAuthContext: () => null,
  };
}

/** As a flat list: the library would make one of an object for every call. Those of the protocol come first. */
function headersOf(path: string, authority: string, metadata: Metadata): readonly string[] {
  const headers = [":method", "POST", ":scheme", "http", ":path", path, ":authority", authority];
  headers.push("content-type", "application/grpc", "te", "trailers", "user-agent", "holdfast");
  for (const [name, values] of Object.entries(metadata.toHttp2Headers()))
    for (const value of [values].flat()) if (value !== undefined) headers.push(name, String(value));
  return headers;
}

function lostDuring(link: Link): CallEnd {
  return madeUpEnd(
    Status.UNAVAILABLE,
    `the connection was lost during the call: ${link.trouble() ?? "the peer closed it"}`,
  );
}

function endOfFault(fault: FrameFault, maxMessageBytes: number): CallEnd {
  return fault === "too-large"
    ? endOf(Status.RESOURCE_EXHAUSTED, `the server sent a message of more than ${maxMessageBytes} bytes`)
    : endOf(Status.INTERNAL, "the server sent a compressed message, although none was asked for");
}
