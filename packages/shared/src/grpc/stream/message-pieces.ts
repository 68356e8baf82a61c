/**
 * A message as the pieces of its encoding. A large field of bytes is a piece of its own and is not copied: to copy 16 MiB at once holds
 * everything else up for longer than most orders take.
 */
import { BinaryWriter } from "@bufbuild/protobuf/wire";

export type MessagePieces = readonly Uint8Array[];

interface Encoder {
  encode(message: unknown, writer?: BinaryWriter): { finish(): Uint8Array };
}

const largeBytes = 64 * 1024;

export function piecesOfMessage(type: Encoder, message: unknown): MessagePieces {
  const writer = new BinaryWriter();
  const { raw, fork, join } = writer;
  const pieces: Uint8Array[] = [];
  let depth = 0;
  // What lies in a message within the message needs its length before it: that is copied, as ever.
  writer.fork = () => {
    depth += 1;
    return fork.call(writer);
  };
  writer.join = () => {
    depth -= 1;
    return join.call(writer);
  };
  writer.raw = (bytes) => {
    if (depth > 0 || bytes.length < largeBytes) return raw.call(writer, bytes);
    pieces.push(writer.finish(), bytes);
    return writer;
  };
  const rest = type.encode(message, writer).finish();
  if (pieces.length === 0) return [rest];
  if (rest.length > 0) pieces.push(rest);
  return pieces;
}

export const bytesOf = (pieces: MessagePieces): number => pieces.reduce((sum, { length }) => sum + length, 0);
