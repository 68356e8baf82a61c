import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFrameReader, frameOf } from "./message-frames.ts";

const limit = 300;
const messages = fc.array(fc.uint8Array({ maxLength: limit }), { maxLength: 12 });
const cuts = fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 40 });

/** The bytes in pieces of these sizes, the rest in one; a piece may be empty. */
function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    pieces.push(bytes.subarray(at, at + size));
    at = Math.min(at + size, bytes.length);
  }
  return [...pieces, bytes.subarray(at)];
}

const plain = (list: readonly Uint8Array[]): number[][] => list.map((bytes) => [...bytes]);
const wire = (list: readonly Uint8Array[]): Buffer => Buffer.concat(list.map(frameOf));

function head(flag: number, length: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes[0] = flag;
  bytes.writeUInt32BE(length, 1);
  return bytes;
}

test("a frame is a zero, the length in four bytes, and the message", () => {
  expect([...frameOf(Buffer.from("abc"))]).toEqual([0, 0, 0, 0, 3, 97, 98, 99]);
  expect([...frameOf(new Uint8Array())]).toEqual([0, 0, 0, 0, 0]);
  expect([...frameOf(new Uint8Array(70_000)).subarray(0, 5)]).toEqual([0, 0, 1, 17, 112]);
});

describe("a frame reader", () => {
  test("gives any messages out as they went in, however they are cut", () => {
    fc.assert(
      fc.property(messages, cuts, (sent, sizes) => {
        const reader = createFrameReader(limit);
        const got = cut(wire(sent), sizes).flatMap((piece) => reader.push(piece));
        expect(plain(got)).toEqual(plain(sent));
        expect(reader.pending()).toBe(0);
        expect(reader.fault()).toBeUndefined();
      }),
    );
  });

  test("gives a message out with the chunk that makes it whole, not later", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: limit }), fc.nat(), (sent, where) => {
        const bytes = frameOf(sent);
        const at = where % bytes.length;
        const reader = createFrameReader(limit);
        expect(reader.push(bytes.subarray(0, at))).toEqual([]);
        expect(reader.pending()).toBe(at);
        expect(plain(reader.push(bytes.subarray(at)))).toEqual([[...sent]]);
        expect(reader.pending()).toBe(0);
      }),
    );
  });

  test("takes byte for byte what it takes at once", () => {
    const sent = ["", "a", "bc", "x".repeat(limit)].map((text) => Buffer.from(text));
    const reader = createFrameReader(limit);
    const got = [...wire(sent)].flatMap((byte) => reader.push(Buffer.from([byte])));
    expect(plain(got)).toEqual(plain(sent));
  });

  test("says what is wrong with a message, after those before it and whatever the cut; nothing comes out after it", () => {
    const wrong = fc.oneof(
      fc.record({
        flag: fc.integer({ min: 1, max: 255 }),
        length: fc.nat({ max: limit }),
        fault: fc.constant("compressed"),
      }),
      fc.record({
        flag: fc.constantFrom(0, 1, 255),
        length: fc.integer({ min: limit + 1, max: 2 ** 32 - 1 }),
        fault: fc.constant("too-large"),
      }),
    );
    fc.assert(
      fc.property(messages, wrong, messages, cuts, (before, { flag, length, fault }, after, sizes) => {
        const reader = createFrameReader(limit);
        const bytes = Buffer.concat([wire(before), head(flag, length), wire(after)]);
        const got = cut(bytes, sizes).flatMap((piece) => reader.push(piece));
        expect(plain(got)).toEqual(plain(before));
        expect(reader.fault()).toBe(fault);
        expect(reader.push(frameOf(Buffer.from("more")))).toEqual([]);
      }),
    );
  });

  test("knows a message for too large by its prefix, before any byte of it", () => {
    const reader = createFrameReader(limit);
    reader.push(head(0, limit + 1).subarray(0, 4));
    expect(reader.fault()).toBeUndefined();
    reader.push(head(0, limit + 1).subarray(4));
    expect(reader.fault()).toBe("too-large");
  });

  test("takes a message of exactly the limit", () => {
    const reader = createFrameReader(limit);
    expect(reader.push(frameOf(Buffer.alloc(limit, 7)))).toEqual([Buffer.alloc(limit, 7)]);
    expect(reader.fault()).toBeUndefined();
  });
});
