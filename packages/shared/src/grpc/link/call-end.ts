/**
 * How a call over HTTP/2 ended, as a status of gRPC: told by the server, or made up of what became of the stream. The tables are
 * those of gRPC's own documents ("gRPC over HTTP2", "HTTP to gRPC Status Code Mapping").
 */
import { constants, type IncomingHttpHeaders } from "node:http2";
import { Metadata } from "@grpc/grpc-js";
import { Status } from "nice-grpc";

export interface CallEnd {
  readonly code: Status;
  readonly details: string;
  readonly metadata: Metadata;
}

/** In the metadata of an end that the server did not tell. */
export const notToldKey = "holdfast-not-told";

/** An end that is made up of what became of the stream: whether the server goes on with the call is not known. */
export const madeUpEnd = (code: Status, details: string): CallEnd => {
  const end = endOf(code, details);
  end.metadata.set(notToldKey, "1");
  return end;
};

export const endOf = (code: Status, details: string): CallEnd => ({ code, details, metadata: new Metadata() });

const ofHttpStatus: Readonly<Record<number, Status>> = {
  400: Status.INTERNAL,
  401: Status.UNAUTHENTICATED,
  403: Status.PERMISSION_DENIED,
  404: Status.UNIMPLEMENTED,
  429: Status.UNAVAILABLE,
  502: Status.UNAVAILABLE,
  503: Status.UNAVAILABLE,
  504: Status.UNAVAILABLE,
};

const ofResetCode: Readonly<Record<number, Status>> = {
  [constants.NGHTTP2_REFUSED_STREAM]: Status.UNAVAILABLE,
  [constants.NGHTTP2_CANCEL]: Status.CANCELLED,
  [constants.NGHTTP2_ENHANCE_YOUR_CALM]: Status.RESOURCE_EXHAUSTED,
  [constants.NGHTTP2_INADEQUATE_SECURITY]: Status.PERMISSION_DENIED,
};

/** What the server says in its trailers, or in headers that are all it sends. Undefined: nothing of gRPC. */
export function toldEnd(headers: IncomingHttpHeaders): CallEnd | undefined {
  const told = headers["grpc-status"];
  if (told === undefined) return undefined;
  const code = /^\d+$/.test(String(told)) ? Number(told) : Status.UNKNOWN;
  return {
    code: code in Status ? code : Status.UNKNOWN,
    details: plainText(String(headers["grpc-message"] ?? "")),
    metadata: besideEnd(headers),
  };
}

/** Most trailers tell the end and nothing else. */
function besideEnd(headers: IncomingHttpHeaders): Metadata {
  const others = Object.keys(headers).filter((name) => name !== "grpc-status" && name !== "grpc-message");
  return others.length === 0
    ? new Metadata()
    : metadataOf(Object.fromEntries(others.map((name) => [name, headers[name]])));
}

/** What is known of a stream that closed without a word of gRPC. */
export function silentEnd(
  httpStatus: number | undefined,
  resetCode: number | undefined,
  cause: Error | undefined,
): CallEnd {
  if (httpStatus !== undefined && httpStatus !== 200)
    return madeUpEnd(ofHttpStatus[httpStatus] ?? Status.UNKNOWN, `the server answered HTTP status ${httpStatus}`);
  if (resetCode === undefined || resetCode === constants.NGHTTP2_NO_ERROR)
    return madeUpEnd(Status.INTERNAL, "the call ended without a status of gRPC");
  const because = cause === undefined ? "" : `: ${cause.message}`;
  return madeUpEnd(ofResetCode[resetCode] ?? Status.INTERNAL, `the stream was reset with code ${resetCode}${because}`);
}

/** Headers that cannot be read as metadata are none: the answer counts. */
export function metadataOf(headers: IncomingHttpHeaders): Metadata {
  try {
    return Metadata.fromHttp2Headers(headers);
  } catch {
    return new Metadata();
  }
}

/** Percent-encoded UTF-8; what is not is shown as it came. */
function plainText(message: string): string {
  if (!message.includes("%")) return message;
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
