/** gRPC's messages within an HTTP/2 stream: a byte that says whether it is compressed, four of its length, the message. */
const prefixBytes = 5;

export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

export type FrameFault = "compressed" | "too-large";

export interface FrameReader {
  /** The messages that are whole with this chunk. Nothing more comes out after a fault. */
  push(chunk: Buffer): readonly Buffer[];
  fault(): FrameFault | undefined;
  /** Bytes of a message that is not whole. */
  pending(): number;
}

/** Most messages come in one chunk of their own; only the others are put together. */
export function createFrameReader(maxMessageBytes: number): FrameReader {
  let chunks: Buffer[] = [];
  let size = 0;
  let fault: FrameFault | undefined;

  const joined = (): Buffer => {
    const whole = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
    chunks = [whole];
    return whole;
  };
  /** How many bytes the first message and its prefix have, or undefined if that is not known yet. */
  const wanted = (): number | undefined => {
    if (size < prefixBytes) return undefined;
    const head = chunks[0] !== undefined && chunks[0].length >= prefixBytes ? chunks[0] : joined();
    const length = head.readUInt32BE(1);
    if (length > maxMessageBytes) fault = "too-large";
    else if (head[0] !== 0) fault = "compressed";
    return fault === undefined ? prefixBytes + length : undefined;
  };

  return {
    push(chunk) {
      if (fault !== undefined) return [];
      if (chunk.length > 0) chunks.push(chunk);
      size += chunk.length;
      const messages: Buffer[] = [];
      for (let length = wanted(); length !== undefined && length <= size; length = wanted()) {
        const whole = joined();
        messages.push(whole.subarray(prefixBytes, length));
        size -= length;
        chunks = size === 0 ? [] : [whole.subarray(length)];
      }
      return messages;
    },
    fault: () => fault,
    pending: () => size,
  };
}
