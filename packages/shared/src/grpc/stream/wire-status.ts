/**
 * How a call failed, as the bytes of a google.rpc.Status: what gRPC has in its trailers goes in frames and chunks here.
 *
 * W1 A status is never larger than what a peer takes as headers. W2 One that cannot be read ends the call, and nothing else.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Metadata as WireMetadata } from "@grpc/grpc-js";
import { ServerError, Status } from "nice-grpc";
import type { Metadata } from "nice-grpc-common";
import { ErrorInfo } from "nice-grpc-error-details";
import { cutToBytes, errorDomain, maxMessageBytes, statusOfKind } from "../../errors/grpc-status.ts";
import { type HoldfastError, isHoldfastError } from "../../errors/holdfast-error.ts";
import { type CallEnd, endOf } from "../link/call-end.ts";

/** Where gRPC's libraries look for the details of an error. */
const detailsKey = "grpc-status-details-bin";
const maxStatusBytes = 8192;

const field = (number: number, type: WireType): number => ((number << 3) | type) >>> 0;
const codeField = field(1, WireType.Varint);
const messageField = field(2, WireType.LengthDelimited);
const detailField = field(3, WireType.LengthDelimited);

/** The peer's own status, to be passed on as it came. */
export class ToldStatus extends Error {
  override readonly name = "ToldStatus";
  readonly status: Uint8Array;
  constructor(status: Uint8Array) {
    super("the peer told how it failed");
    this.status = status;
  }
}

/** Of what a surrounded call threw: it has left its details in the trailer. */
export function statusOfFailure(error: unknown, trailer: Metadata): Uint8Array {
  const details = trailer.get(detailsKey);
  if (details !== undefined && details.length <= maxStatusBytes) return details; // W1
  if (error instanceof ServerError) return encodeStatus(error.code, error.details);
  return encodeStatus(Status.INTERNAL, "internal error; the log of the side that was asked has the details");
}

/** Of what went wrong outside of a handler. */
export function statusOfError(error: unknown): Uint8Array {
  if (error instanceof ToldStatus) return error.status;
  if (isHoldfastError(error)) return encodeStatus(statusOfKind[error.kind], error.message, error);
  return encodeStatus(Status.INTERNAL, "internal error; the log of the side that was asked has the details");
}

/** The end of a call whose status the peer told. */
export function endOfStatus(status: Uint8Array): CallEnd {
  try {
    const { code, message } = readStatus(status);
    const metadata = new WireMetadata();
    metadata.set(detailsKey, Buffer.from(status));
    return { code: code in Status && code !== Status.OK ? code : Status.UNKNOWN, details: message, metadata };
  } catch {
    return endOf(Status.UNKNOWN, "the call failed, with a status that cannot be read"); // W2
  }
}

export const endOfError = (error: unknown): CallEnd => endOfStatus(statusOfError(error));

function encodeStatus(code: Status, message: string, told?: Pick<HoldfastError, "reason" | "metadata">): Uint8Array {
  const writer = new BinaryWriter().uint32(codeField).int32(code);
  writer.uint32(messageField).string(cutToBytes(message, maxMessageBytes)); // W1
  if (told === undefined) return writer.finish();
  const info = ErrorInfo.fromPartial({ reason: told.reason, domain: errorDomain, metadata: { ...told.metadata } });
  writer.uint32(detailField).fork();
  writer.uint32(field(1, WireType.LengthDelimited)).string(`type.googleapis.com/${ErrorInfo.$type}`);
  writer.uint32(field(2, WireType.LengthDelimited)).bytes(ErrorInfo.encode(info).finish());
  return writer.join().finish();
}

function readStatus(bytes: Uint8Array): { readonly code: number; readonly message: string } {
  const reader = new BinaryReader(bytes);
  let code = 0;
  let message = "";
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === codeField) code = reader.int32();
    else if (tag === messageField) message = reader.string();
    else if (tag === detailField) checkFields(reader.bytes());
    else reader.skip(tag & 7, tag >>> 3);
  }
  return { code, message };
}

/** W2: the library reads details where nothing catches what it throws. */
function checkFields(bytes: Uint8Array): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    reader.skip(type, number);
  }
}
