import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sample } from "../../../../test/support/full.ts";
import { encodeFrame, encodeHeader, journalFormat, readJournal } from "./journal-format.ts";

const header = { format: journalFormat, uid: "5a2d", machine: "m" };
const frameCount = sample(200, 80);

/** Long and short, with line breaks and zeros in their texts, one and several records a frame. */
const frameRecords = Array.from({ length: frameCount }, (_, at) =>
  Array.from({ length: 1 + (at % 3) }, (_unused, of) => ({ at, of, text: "ü\n\0x".repeat(at % 7) })),
);
const frames = [encodeHeader(header), ...frameRecords.map((records, at) => encodeFrame(at + 1, records))];
const journal = Buffer.concat(frames);
/** Where each of them ends. */
const ends: number[] = [];
for (const frame of frames) ends.push((ends.at(-1) ?? 0) + frame.length);

/** The records of the first `count` frames. */
const prefixes = Array.from({ length: frameCount + 1 }, (_, count) => frameRecords.slice(0, count).flat());

describe("a journal of 80 or 200 frames", () => {
  test("is read as it was written", () => {
    const reading = readJournal(journal);
    expect(reading).toMatchObject({
      kind: "good",
      journal: { header, sequence: frameCount, goodBytes: journal.length, missingBreak: false },
    });
    expect(reading.kind === "good" && reading.journal.records).toEqual(prefixes[frameCount]);
  });

  test("cut at every byte: exactly the frames that are whole, and a header that is not whole is damage", () => {
    for (let length = 0; length < journal.length; length += 1) {
      const reading = readJournal(journal.subarray(0, length));
      // A frame that lacks only its line break is whole.
      const whole = ends.filter((end) => end - 1 <= length).length - 1;
      if (whole < 0) expect(reading.kind).toBe("damaged");
      else {
        if (reading.kind !== "good") throw new Error(`cut at ${length}: ${reading.kind}`);
        expect(reading.journal.sequence).toBe(whole);
        expect(reading.journal.records.length).toBe(prefixes[whole]?.length);
      }
    }
  });

  test("with a flipped bit: damaged, or read as it was; never anything else", () => {
    const flip = fc.record({ byte: fc.nat(journal.length - 1), bit: fc.nat(7) });
    fc.assert(
      fc.property(flip, ({ byte, bit }) => {
        const copy = Buffer.from(journal);
        copy[byte] = (copy[byte] ?? 0) ^ (1 << bit);
        const reading = readJournal(copy);
        if (reading.kind === "damaged") return;
        expect(reading.kind).toBe("good");
        // Only the very last line break can be repaired.
        expect(byte).toBe(journal.length - 1);
        expect(reading.kind === "good" && reading.journal.sequence).toBe(frameCount);
      }),
      { numRuns: sample(100_000, 2_000), seed: sample(Date.now() % 1e9, 7) },
    );
  });

  test("with any bytes replaced: damaged, or a beginning of it", () => {
    const wound = fc.record({ at: fc.nat(journal.length - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 600 }) });
    fc.assert(
      fc.property(wound, ({ at, bytes }) => {
        const copy = Buffer.from(journal);
        Buffer.from(bytes).copy(copy, at);
        const reading = readJournal(copy);
        if (reading.kind !== "good") return;
        const whole = ends.findLastIndex((end) => end <= Math.max(at, ends[0] ?? 0));
        expect(reading.journal.sequence).toBeGreaterThanOrEqual(copy.equals(journal) ? frameCount : whole);
        expect(reading.journal.records).toEqual(prefixes[reading.journal.sequence]);
      }),
      { numRuns: sample(20_000, 500), seed: sample(Date.now() % 1e9, 11) },
    );
  });

  test("a frame that is missing, doubled or out of order is damage", () => {
    const [first, second, third] = frames as [Buffer, Buffer, Buffer];
    for (const order of [
      [first, third],
      [first, second, second],
      [first, third, second],
      [second, first],
      [first, first],
    ]) {
      expect(readJournal(Buffer.concat(order)).kind).toBe("damaged");
    }
  });
});

describe("the end that a crash leaves", () => {
  const good = journal.subarray(0, ends[3]);
  const torn = frames[4] ?? Buffer.alloc(0);

  test.each([
    ["half a frame", torn.subarray(0, 20)],
    ["a size without bytes", Buffer.alloc(700)],
    ["half a frame and unwritten bytes", Buffer.concat([torn.subarray(0, 12), Buffer.alloc(100)])],
    ["an unwritten stretch in the middle", Buffer.concat([torn.subarray(0, 12), Buffer.alloc(16), torn.subarray(28)])],
  ])("%s is cut", (_name, tail) => {
    expect(readJournal(Buffer.concat([good, tail]))).toMatchObject({
      kind: "good",
      journal: { sequence: 3, goodBytes: good.length },
    });
  });

  test("a whole frame that does not check is no torn end", () => {
    const bad = Buffer.from(torn);
    bad[bad.length - 3] = 0x41;
    expect(readJournal(Buffer.concat([good, bad]))).toMatchObject({
      kind: "damaged",
      at: good.length,
      journal: { sequence: 3 },
    });
  });

  test("an unwritten stretch before the end is damage", () => {
    const hole = Buffer.concat([torn.subarray(0, 12), Buffer.alloc(16), torn.subarray(28)]);
    expect(readJournal(Buffer.concat([good, hole, frames[5] ?? torn])).kind).toBe("damaged");
  });
});

test("a newer format is named, never read", () => {
  const newer = encodeHeader({ ...header, format: journalFormat + 1 });
  expect(readJournal(Buffer.concat([newer, Buffer.from("anything\n")]))).toEqual({
    kind: "newer",
    format: journalFormat + 1,
  });
});

test.each([{ format: 0 }, { format: 0.5 }, { format: -1 }, { uid: "" }])("a header with %j is damage", (change) => {
  expect(readJournal(encodeHeader({ ...header, ...change })).kind).toBe("damaged");
});

test.each(["", "\n", "hello\n", '00000000 {"format":1}\n'])("%j is a damaged journal, not an empty one", (text) => {
  expect(readJournal(Buffer.from(text)).kind).toBe("damaged");
});
