import { type FileHandle, open } from "node:fs/promises";
import type { Extent } from "../domain/extents.ts";
import { hostFailure, throwIfGivenUp } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";

const blockBytes = 4096;
const windowBytes = 1 << 20;
/** filefrag where the filesystem (tmpfs, say) has no FIEMAP: EINVAL, ENOTTY or EOPNOTSUPP of the ioctl as its exit code. */
const unsupported = [22, 25, 95];

/** `   1:   131072..  155647: 164906401792.. 164906426367:  24576: 164973510656: last,unwritten,eof`, in bytes. */
const extentLine = /^\s*\d+:\s*(\d+)\.\.\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+):(.*)$/;

/** Where the file holds data: allocated and written. In order, merged, inside of the file. */
export async function imageExtents(run: RunTool, image: string, signal: AbortSignal): Promise<readonly Extent[]> {
  return withFile(image, async (file) => {
    // What is only in memory as yet has no extents, or unwritten ones.
    await file.sync();
    const { size } = await file.stat({ bigint: true });
    const found: Extent[] = [];
    const { code } = await run("filefrag", ["-v", "-e", "-b1", "--", image], {
      signal,
      judges: [0, ...unsupported],
      onLine: (line) => {
        const extent = parseExtent(line, size);
        if (extent !== undefined) append(found, extent);
      },
    });
    return code === 0 ? found : readExtents(file, size, image, signal);
  });
}

/** The first byte that is not zero, or undefined. Holes are not read. */
export async function firstData(run: RunTool, image: string, signal: AbortSignal): Promise<bigint | undefined> {
  const extents = await imageExtents(run, image, signal);
  return withFile(image, async (file) => {
    for (const extent of extents) {
      for await (const { offset, bytes } of windows(file, extent, image, signal)) {
        if (!isZero(bytes)) return offset + BigInt(bytes.findIndex((byte) => byte !== 0));
      }
    }
    return undefined;
  });
}

function parseExtent(line: string, size: bigint): Extent | undefined {
  const [, start, length, rest = ""] = extentLine.exec(line) ?? [];
  if (start === undefined || length === undefined || rest.includes("unwritten")) return undefined;
  const offset = BigInt(start);
  // The last one goes on to the end of its block, and preallocation beyond the end of the file.
  const end = offset + BigInt(length) < size ? offset + BigInt(length) : size;
  return end > offset ? { offset, length: end - offset } : undefined;
}

function append(extents: Extent[], { offset, length }: Extent): void {
  const last = extents.at(-1);
  if (last !== undefined && last.offset + last.length === offset)
    extents[extents.length - 1] = { offset: last.offset, length: last.length + length };
  else extents.push({ offset, length });
}

/** Without the help of the filesystem: every block that is not all zeros. */
async function readExtents(
  file: FileHandle,
  size: bigint,
  image: string,
  signal: AbortSignal,
): Promise<readonly Extent[]> {
  const found: Extent[] = [];
  for await (const { offset, bytes } of windows(file, { offset: 0n, length: size }, image, signal)) {
    if (isZero(bytes)) continue;
    for (let at = 0; at < bytes.length; at += blockBytes) {
      const block = bytes.subarray(at, at + blockBytes);
      if (!isZero(block)) append(found, { offset: offset + BigInt(at), length: BigInt(block.length) });
    }
  }
  return found;
}

/** The bytes of a range, a piece at a time; each is overwritten by the next. */
async function* windows(file: FileHandle, { offset, length }: Extent, image: string, signal: AbortSignal) {
  const buffer = Buffer.allocUnsafe(windowBytes);
  for (let at = offset; at < offset + length; ) {
    throwIfGivenUp(`read ${image}`, signal);
    const left = offset + length - at;
    const { bytesRead } = await file.read(buffer, 0, left < windowBytes ? Number(left) : windowBytes, at);
    if (bytesRead === 0) return;
    yield { offset: at, bytes: buffer.subarray(0, bytesRead) };
    at += BigInt(bytesRead);
  }
}

const zeros = Buffer.alloc(windowBytes);

function isZero(bytes: Buffer): boolean {
  return bytes.compare(zeros, 0, bytes.length) === 0;
}

async function withFile<T>(image: string, act: (file: FileHandle) => Promise<T>): Promise<T> {
  let file: FileHandle | undefined;
  try {
    file = await open(image, "r");
    return await act(file);
  } catch (error) {
    throw hostFailure(`read ${image}`, error);
  } finally {
    await file?.close();
  }
}
