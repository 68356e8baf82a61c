import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Block, BlockStream } from "../operations.ts";
import {
  bytes,
  type ControllerFixture,
  createControllerFixture,
  mib,
  raw,
  refusalOf,
} from "../testing/controller-fixture.ts";

const block = 4096n;
const range = (first: number, count: number): Block => ({ offset: BigInt(first) * block, size: BigInt(count) * block });

const collect = async ({ blocks }: BlockStream): Promise<readonly (readonly Block[])[]> => {
  const messages: (readonly Block[])[] = [];
  for await (const message of blocks) messages.push(message);
  return messages;
};

const write = (at: ControllerFixture, id: string, first: number, count: number, value: number) =>
  at.memory.write(id, BigInt(first) * block, count, value);

const rawVolume = async (at: ControllerFixture, size = 16n * mib) =>
  await at.volume("v", { capabilities: [raw], capacity: bytes(size) });

const allocated = (
  at: ControllerFixture,
  snapshotId: string,
  over: { startingOffset?: bigint; maxResults?: number } = {},
) => at.metadata.allocated({ snapshotId, startingOffset: 0n, maxResults: 0, ...over }, at.signal);

const delta = (
  at: ControllerFixture,
  baseSnapshotId: string,
  targetSnapshotId: string,
  over: { startingOffset?: bigint; maxResults?: number } = {},
) => at.metadata.delta({ baseSnapshotId, targetSnapshotId, startingOffset: 0n, maxResults: 0, ...over }, at.signal);

describe("allocated", () => {
  test("is the ranges with data of the moment of the snapshot, in messages of the size asked for", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    write(at, volume.id, 0, 2, 1);
    write(at, volume.id, 10, 3, 1);
    write(at, volume.id, 4095, 1, 1);
    const { id } = await at.snapshot("s", volume.id);
    write(at, volume.id, 20, 1, 1);
    const stream = await allocated(at, id, { maxResults: 2 });
    expect(stream.capacityBytes).toBe(16n * mib);
    expect(await collect(stream)).toEqual([[range(0, 2), range(10, 3)], [range(4095, 1)]]);
    expect(await collect(await allocated(at, id))).toEqual([[range(0, 2), range(10, 3), range(4095, 1)]]);
  });

  test("begins at the block that the offset is in, and an empty snapshot has none", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    const empty = await at.snapshot("empty", volume.id);
    write(at, volume.id, 10, 4, 1);
    const { id } = await at.snapshot("s", volume.id);
    const from = async (startingOffset: bigint) => (await collect(await allocated(at, id, { startingOffset }))).flat();
    expect(await from(10n * block)).toEqual([range(10, 4)]);
    expect(await from(11n * block + 1n)).toEqual([range(11, 3)]);
    expect(await from(14n * block - 1n)).toEqual([range(13, 1)]);
    expect(await from(14n * block)).toEqual([]);
    expect(await from(16n * mib)).toEqual([]);
    expect(await collect(await allocated(at, empty.id))).toEqual([]);
  });

  test("is refused outside of the snapshot, for a directory, for none, and for an image that was cut", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    const { id } = await at.snapshot("s", volume.id);
    for (const startingOffset of [-1n, 16n * mib + 1n])
      expect((await refusalOf(allocated(at, id, { startingOffset }))).code).toBe("OUT_OF_RANGE");
    expect((await refusalOf(allocated(at, "x"))).code).toBe("NOT_FOUND");
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    const tree = await at.snapshot("t", directory.id);
    expect(await refusalOf(allocated(at, tree.id))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("which has no blocks: there is no metadata of it; back up all of its files"),
    });
    at.memory.imageOf("snapshots", id).bytes = mib;
    expect((await refusalOf(allocated(at, id))).message).toContain("it was cut");
  });
});

describe("delta", () => {
  test("is exactly the blocks whose contents differ, for whatever was written between the two", async () => {
    const writes = fc.array(fc.tuple(fc.nat(40), fc.integer({ min: 1, max: 5 }), fc.nat(2)), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(
        writes,
        writes,
        fc.nat(45),
        fc.integer({ min: 1, max: 4 }),
        async (before, after, from, maxResults) => {
          const at = createControllerFixture();
          const volume = await rawVolume(at);
          for (const each of before) write(at, volume.id, ...each);
          const base = await at.snapshot("base", volume.id);
          for (const each of after) write(at, volume.id, ...each);
          const target = await at.snapshot("target", volume.id);
          const [left, right] = [base, target].map(({ id }) => at.memory.imageOf("snapshots", id).blocks);
          const differing = Array.from({ length: 50 }, (_, n) => n).filter(
            (n) => n >= from && (left?.get(BigInt(n)) ?? 0) !== (right?.get(BigInt(n)) ?? 0),
          );
          const startingOffset = BigInt(from) * block;
          const messages = await collect(await delta(at, base.id, target.id, { startingOffset, maxResults }));
          for (const message of messages) expect(message.length).toBeLessThanOrEqual(maxResults);
          for (const message of messages.slice(0, -1)) expect(message).toHaveLength(maxResults);
          const blocks = messages.flat();
          expect(
            blocks.flatMap(({ offset, size }) =>
              Array.from({ length: Number(size / block) }, (_, n) => Number(offset / block) + n),
            ),
          ).toEqual(differing);
          for (const [n, { offset }] of blocks.entries()) {
            const last = blocks[n - 1];
            if (last !== undefined) expect(last.offset + last.size).toBeLessThan(offset);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("a volume that grew differs where something was written; backwards it ends with the smaller one", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    write(at, volume.id, 1, 1, 1);
    const small = await at.snapshot("small", volume.id);
    await at.volumes.expandVolume(volume.id, { capacity: bytes(32n * mib), capability: raw }, at.signal);
    write(at, volume.id, 2, 1, 1);
    write(at, volume.id, 5000, 2, 1);
    write(at, volume.id, 6000, 1, 0);
    const large = await at.snapshot("large", volume.id);
    const forth = await delta(at, small.id, large.id);
    expect(forth.capacityBytes).toBe(32n * mib);
    expect((await collect(forth)).flat()).toEqual([range(2, 1), range(5000, 2)]);
    const back = await delta(at, large.id, small.id);
    expect(back.capacityBytes).toBe(16n * mib);
    expect((await collect(back)).flat()).toEqual([range(2, 1)]);
  });

  test("large ranges are compared piece by piece and told as one", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at, 64n * mib);
    const base = await at.snapshot("base", volume.id);
    write(at, volume.id, 0, 5000, 1);
    const target = await at.snapshot("target", volume.id);
    at.memory.calls.length = 0;
    expect(await collect(await delta(at, base.id, target.id))).toEqual([[range(0, 5000)]]);
    expect(at.memory.calls.filter((call) => call === "blocks.differing")).toHaveLength(3);
  });

  test("is refused for snapshots of two volumes, for directories, for none", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    const other = await at.volume("w");
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    const [a, b, c] = [
      await at.snapshot("a", volume.id),
      await at.snapshot("b", other.id),
      await at.snapshot("c", directory.id),
    ];
    expect((await refusalOf(delta(at, a.id, b.id))).code).toBe("INVALID_ARGUMENT");
    expect((await refusalOf(delta(at, c.id, c.id))).code).toBe("FAILED_PRECONDITION");
    expect((await refusalOf(delta(at, a.id, "x"))).code).toBe("NOT_FOUND");
    expect((await refusalOf(delta(at, "x", a.id))).code).toBe("NOT_FOUND");
    expect((await refusalOf(delta(at, a.id, a.id, { startingOffset: 1n << 60n }))).code).toBe("OUT_OF_RANGE");
    expect(await collect(await delta(at, a.id, a.id))).toEqual([]);
  });

  test("ends when its reader does, and with NOT_FOUND when a snapshot goes away under it", async () => {
    const at = createControllerFixture();
    const volume = await rawVolume(at);
    const base = await at.snapshot("base", volume.id);
    write(at, volume.id, 0, 1, 1);
    const target = await at.snapshot("target", volume.id);
    const input = { baseSnapshotId: base.id, targetSnapshotId: target.id, startingOffset: 0n, maxResults: 0 };

    const reader = new AbortController();
    at.memory.inject({ on: "blocks.differing", kind: "hang" });
    const reading = collect(await at.metadata.delta(input, reader.signal));
    reader.abort(new DOMException("the reader left", "AbortError"));
    await expect(reading).rejects.toThrow("the reader left");

    const stream = await at.metadata.delta(input, at.signal);
    await at.snapshots.deleteSnapshot(target.id);
    expect((await refusalOf(collect(stream))).code).toBe("NOT_FOUND");
  });
});
