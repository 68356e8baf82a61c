import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createBlocks } from "./blocks.ts";

const block = 4096;
const { signal } = new AbortController();
const blocks = createBlocks();
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), "holdfast-blocks-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** A sparse file of so many blocks; each change is one byte somewhere in its block. */
const fileOf = async (name: string, count: number, changes: readonly (readonly [number, number, number])[]) => {
  const file = path.join(directory, name);
  const handle = await open(file, "w");
  await handle.truncate(count * block);
  for (const [at, offset, value] of changes)
    if (at < count) await handle.write(Buffer.from([value]), 0, 1, at * block + offset);
  await handle.close();
  return file;
};

const contents = (count: number, changes: readonly (readonly [number, number, number])[]): Buffer => {
  const buffer = Buffer.alloc(600 * block);
  for (const [at, offset, value] of changes) if (at < count) buffer[at * block + offset] = value;
  return buffer;
};

test("exactly the blocks that differ, merged, for files of different lengths and ranges across several reads", async () => {
  const changes = fc.array(fc.tuple(fc.nat(599), fc.constantFrom(0, 1, 2047, 4095), fc.nat(2)), { maxLength: 20 });
  const length = fc.constantFrom(1, 255, 256, 257, 600);
  await fc.assert(
    fc.asyncProperty(changes, changes, length, length, fc.nat(300), async (a, b, left, right, from) => {
      const [base, target] = [await fileOf("a", left, a), await fileOf("b", right, b)];
      const range = { offset: BigInt(from * block), length: BigInt((600 - from) * block) };
      const found = await blocks.differing(base, target, range, signal);
      const [one, other] = [contents(left, a), contents(right, b)];
      const wanted = Array.from({ length: 600 - from }, (_, n) => n + from).filter(
        (n) => one.compare(other, n * block, (n + 1) * block, n * block, (n + 1) * block) !== 0,
      );
      const got = found.flatMap((each) =>
        Array.from({ length: Number(each.length) / block }, (_, n) => Number(each.offset) / block + n),
      );
      expect(got).toEqual(wanted);
      for (const [n, { offset }] of found.entries()) {
        const last = found[n - 1];
        if (last !== undefined) expect(last.offset + last.length).toBeLessThan(offset);
      }
    }),
    { numRuns: 40 },
  );
});

test("an aborted comparison rejects with the reason, before it reads and in the middle", async () => {
  const base = await fileOf("a", 600, []);
  const caller = new AbortController();
  const range = { offset: 0n, length: 1n << 40n };
  const comparing = blocks.differing(base, base, range, caller.signal);
  setImmediate(() => caller.abort(new Error("the reader left")));
  await expect(comparing).rejects.toThrow("the reader left");
  await expect(blocks.differing(base, base, range, caller.signal)).rejects.toThrow("the reader left");
});

test("an image that cannot be read is named", async () => {
  const base = path.join(directory, "base");
  await writeFile(base, "");
  const gone = path.join(directory, "gone");
  await expect(blocks.differing(base, gone, { offset: 0n, length: 4096n }, signal)).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringContaining(gone),
  });
});
