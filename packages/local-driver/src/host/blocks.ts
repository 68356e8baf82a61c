import fs from "node:fs/promises";
import { throwIfAborted } from "@holdfast/shared/async/signals";
import { DriverError } from "../domain/driver-error.ts";
import type { Extent } from "../domain/extents.ts";
import type { Blocks } from "../ports.ts";

const blockBytes = 4096;
/** Read at once of each file: large enough to be fast, small enough to give up soon. */
const windowBytes = 1 << 20;

/** Images are files of the state directory, never of a mounted volume: reading them in this process cannot hang on a dead daemon. */
export function createBlocks(): Blocks {
  return {
    differing: async (base, target, range, signal) => {
      throwIfAborted(signal);
      const left = await open(base);
      try {
        const right = await open(target);
        try {
          return await compare(left, right, range, signal);
        } finally {
          await right.close();
        }
      } finally {
        await left.close();
      }
    },
  };
}

async function compare(
  left: fs.FileHandle,
  right: fs.FileHandle,
  range: Extent,
  signal: AbortSignal,
): Promise<readonly Extent[]> {
  const found: { offset: bigint; length: bigint }[] = [];
  const buffers = [Buffer.alloc(windowBytes), Buffer.alloc(windowBytes)] as const;
  const end = range.offset + range.length;
  for (let at = range.offset; at < end; at += BigInt(windowBytes)) {
    throwIfAborted(signal);
    const length = Number(end - at < BigInt(windowBytes) ? end - at : BigInt(windowBytes));
    await Promise.all([readAll(left, buffers[0], length, at), readAll(right, buffers[1], length, at)]);
    if (buffers[0].compare(buffers[1], 0, length, 0, length) === 0) continue;
    for (let block = 0; block < length; block += blockBytes) {
      const stop = Math.min(block + blockBytes, length);
      if (buffers[0].compare(buffers[1], block, stop, block, stop) === 0) continue;
      const offset = at + BigInt(block);
      const last = found.at(-1);
      if (last !== undefined && last.offset + last.length === offset) last.length += BigInt(blockBytes);
      else found.push({ offset, length: BigInt(blockBytes) });
    }
  }
  return found;
}

/** Fills the first `length` bytes; zeros past the end of the file. */
async function readAll(file: fs.FileHandle, buffer: Buffer, length: number, position: bigint): Promise<void> {
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + BigInt(filled));
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  buffer.fill(0, filled, length);
}

async function open(file: string): Promise<fs.FileHandle> {
  try {
    return await fs.open(file, "r");
  } catch (error) {
    throw new DriverError(
      "INTERNAL",
      `cannot read ${file}: ${error instanceof Error ? error.message : String(error)}; look at the disk of the state directory`,
      { cause: error },
    );
  }
}
