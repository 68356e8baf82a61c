import { mkdtemp, open, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Extent } from "../domain/extents.ts";
import { firstData, imageExtents } from "./image-extents.ts";
import { createRunTool, type RunTool } from "./run-tool.ts";

const signal = new AbortController().signal;
const block = 4096;
let dir: string;
let image: string;
let run: RunTool;

const write = async (bytes: Buffer, position: number): Promise<void> => {
  const file = await open(image, "r+");
  await file.write(bytes, 0, bytes.length, position);
  await file.close();
};

/** tmpfs has no FIEMAP: there the blocks that are not zeros are found by reading. */
describe.each([
  ["a filesystem that tells its extents", tmpdir(), true],
  ["one that does not", "/dev/shm", false],
])("on %s", (_what, parent, tells) => {
  beforeEach(async () => {
    dir = await mkdtemp(path.join(parent, "hf-extents-"));
    image = path.join(dir, "image");
    run = createRunTool({ stateDir: dir, nodeId: "node-a" });
    await writeFile(image, "");
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it("an empty, a sparse and an unsynced file", async () => {
    expect(await imageExtents(run, image, signal)).toEqual([]);
    await truncate(image, 1 << 30);
    expect(await imageExtents(run, image, signal)).toEqual([]);
    await write(Buffer.from("x"), 5 * block + 17);
    expect(await imageExtents(run, image, signal)).toEqual([{ offset: BigInt(5 * block), length: BigInt(block) }]);
    expect(await firstData(run, image, signal)).toBe(BigInt(5 * block + 17));
  });

  it("neighbours are one, and the last one ends with the file", async () => {
    await truncate(image, 10 * block + 100);
    await write(Buffer.alloc(block, 1), 2 * block);
    await write(Buffer.alloc(block, 2), 3 * block);
    await write(Buffer.alloc(100, 3), 10 * block);
    expect(await imageExtents(run, image, signal)).toEqual([
      { offset: BigInt(2 * block), length: BigInt(2 * block) },
      { offset: BigInt(10 * block), length: 100n },
    ]);
  });

  it("zeros that were written are blank", async () => {
    await truncate(image, 8 << 20);
    await write(Buffer.alloc(3 << 20), 1 << 20);
    expect(await firstData(run, image, signal)).toBeUndefined();
    expect((await imageExtents(run, image, signal)).length).toBe(tells ? 1 : 0);
    await write(Buffer.from([1]), (4 << 20) - 1);
    expect(await firstData(run, image, signal)).toBe(BigInt((4 << 20) - 1));
  });

  it("preallocated blocks hold nothing", async () => {
    await run("fallocate", ["-l", "1M", image], { signal });
    expect(await firstData(run, image, signal)).toBeUndefined();
    expect(await imageExtents(run, image, signal)).toEqual([]);
    await write(Buffer.from("data"), 512 * 1024);
    expect(await imageExtents(run, image, signal)).toEqual([{ offset: 524288n, length: BigInt(block) }]);
  });

  it("every byte that is not zero lies in an extent, whatever was written where", async () => {
    const sizeBlocks = 200;
    const piece = fc.record({
      at: fc.nat(sizeBlocks * block - 1),
      length: fc.integer({ min: 1, max: 5 * block }),
      fill: fc.constantFrom(0, 1, 255),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 6 }), async (pieces) => {
        await truncate(image, 0);
        await truncate(image, sizeBlocks * block);
        const model = Buffer.alloc(sizeBlocks * block);
        for (const { at, length, fill } of pieces) {
          const end = Math.min(at + length, model.length);
          model.fill(fill, at, end);
          await write(Buffer.alloc(end - at, fill), at);
        }
        const extents = await imageExtents(run, image, signal);
        const first = model.findIndex((byte) => byte !== 0);
        expect(await firstData(run, image, signal)).toBe(first < 0 ? undefined : BigInt(first));
        expect(outside(model, extents)).toBe(-1);
        expect(extents.every((it, at) => it.offset > (extents[at - 1]?.offset ?? -1n))).toBe(true);
        expect(extents.every((it, at) => end(extents[at - 1]) !== it.offset)).toBe(true);
      }),
      { numRuns: 25 },
    );
  });

  it("gives up in the middle", async () => {
    await truncate(image, 64 << 20);
    await write(Buffer.alloc(32 << 20), 0);
    const controller = new AbortController();
    const looking = firstData(run, image, controller.signal);
    controller.abort(new DOMException("", "TimeoutError"));
    await expect(looking).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  it("names the file that is not there", async () => {
    await expect(imageExtents(run, path.join(dir, "none"), signal)).rejects.toMatchObject({
      code: "INTERNAL",
      message: expect.stringMatching(/cannot read .*none: ENOENT/),
    });
  });
});

const end = (extent: Extent | undefined): bigint => (extent === undefined ? -1n : extent.offset + extent.length);

/** The first byte that is not zero and in none of the extents. */
function outside(model: Buffer, extents: readonly Extent[]): number {
  const rest = Buffer.from(model);
  for (const { offset, length } of extents) rest.fill(0, Number(offset), Number(offset + length));
  return rest.findIndex((byte) => byte !== 0);
}

it("a disk that cannot be read is an error, and not blank", async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-extents-"));
  await expect(imageExtents(createRunTool({ stateDir: dir, nodeId: "a" }), dir, signal)).resolves.toBeDefined();
  await expect(firstData(createRunTool({ stateDir: dir, nodeId: "a" }), dir, signal)).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/EISDIR/),
  });
  await rm(dir, { recursive: true });
});
