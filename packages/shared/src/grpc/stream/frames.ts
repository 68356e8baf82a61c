/**
 * Frames of Serve, written and read around bodies that are encoded already. FromAgent and ToAgent have the same layout: 1 a call, 2 a
 * call given up, 3 an answer, 4 a notice; in 1 and 3 the head is field 1, and a body some field from 10 on.
 *
 * F1 A body is copied once on its way into a frame, and not at all on its way out. F2 A frame that is not one of these, or of more than
 * 64 KiB, is refused whole.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { AnswerHead, CallHead, CancelCall } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { maxFrameBytes } from "./serve-wire.ts";

export interface FrameBody {
  readonly field: number;
  readonly bytes: Uint8Array;
}

export type Frame =
  | { readonly kind: "call"; readonly head: CallHead; readonly body: FrameBody | undefined }
  | { readonly kind: "cancel"; readonly seq: number }
  | { readonly kind: "answer"; readonly head: AnswerHead; readonly body: FrameBody | undefined }
  | { readonly kind: "notice"; readonly bytes: Uint8Array };

const delimited = (number: number): number => ((number << 3) | WireType.LengthDelimited) >>> 0;
const tag = { call: delimited(1), cancel: delimited(2), answer: delimited(3), notice: delimited(4) };
const headTag = delimited(1);
const firstBodyField = 10;

export const callFrame = (head: CallHead, body: FrameBody): Uint8Array =>
  envelope(tag.call, CallHead.encode(head).finish(), body);

export const answerFrame = (head: AnswerHead, body: FrameBody | undefined): Uint8Array =>
  envelope(tag.answer, AnswerHead.encode(head).finish(), body);

export const cancelFrame = (seq: number): Uint8Array =>
  CancelCall.encode({ seq: BigInt(seq) }, new BinaryWriter().uint32(tag.cancel).fork())
    .join()
    .finish();

export const noticeFrame = (bytes: Uint8Array): Uint8Array =>
  new BinaryWriter().uint32(tag.notice).bytes(bytes).finish();

export function readFrame(bytes: Uint8Array): Frame {
  if (bytes.length > maxFrameBytes) throw new Error(`it has ${bytes.length} bytes, at most ${maxFrameBytes} are taken`);
  const reader = new BinaryReader(bytes);
  let frame: Frame | undefined;
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const which = delimited(number);
    if (type !== WireType.LengthDelimited) reader.skip(type, number);
    else if (which === tag.call) frame = readCall(reader.bytes());
    else if (which === tag.cancel) frame = { kind: "cancel", seq: seqOf(CancelCall.decode(reader.bytes())) };
    else if (which === tag.answer) frame = readAnswer(reader.bytes());
    else if (which === tag.notice) frame = { kind: "notice", bytes: reader.bytes() };
    else reader.skip(type, number);
  }
  if (frame === undefined) throw new Error("it is of no kind that is known here"); // F2
  return frame;
}

export const seqOf = ({ seq }: { readonly seq: bigint }): number => {
  const number = Number(seq);
  if (number === 0 || !Number.isSafeInteger(number)) throw new Error(`${seq} is no number of a call`);
  return number;
};

function readCall(bytes: Uint8Array): Frame {
  const { head, body } = readEnvelope(bytes);
  const decoded = CallHead.decode(head);
  seqOf(decoded);
  return { kind: "call", head: decoded, body };
}

function readAnswer(bytes: Uint8Array): Frame {
  const { head, body } = readEnvelope(bytes);
  const decoded = AnswerHead.decode(head);
  seqOf(decoded);
  return { kind: "answer", head: decoded, body };
}

function readEnvelope(bytes: Uint8Array): { readonly head: Uint8Array; readonly body: FrameBody | undefined } {
  const reader = new BinaryReader(bytes);
  let head: Uint8Array | undefined;
  let body: FrameBody | undefined;
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (type !== WireType.LengthDelimited) reader.skip(type, field);
    else if (field === 1) head = reader.bytes();
    else if (field >= firstBodyField) body = { field, bytes: reader.bytes() };
    else reader.skip(type, field);
  }
  if (head === undefined) throw new Error("it has no head");
  return { head, body };
}

/** F1: the lengths are known before anything is written. */
function envelope(frameTag: number, head: Uint8Array, body: FrameBody | undefined): Uint8Array {
  const writer = new BinaryWriter().uint32(frameTag);
  const headLength = 1 + varintLength(head.length) + head.length;
  if (body === undefined) return writer.uint32(headLength).uint32(headTag).bytes(head).finish();
  const bodyTag = delimited(body.field);
  const { length } = body.bytes;
  writer.uint32(headLength + varintLength(bodyTag) + varintLength(length) + length);
  const start = writer.uint32(headTag).bytes(head).uint32(bodyTag).uint32(length).finish();
  const frame = Buffer.allocUnsafe(start.length + length);
  frame.set(start);
  frame.set(body.bytes, start.length);
  return frame;
}

function varintLength(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}
