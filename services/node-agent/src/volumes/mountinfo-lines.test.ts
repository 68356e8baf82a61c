import { parseMountinfo } from "@holdfast/model/mountinfo";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMountinfoLines } from "./mountinfo-lines.ts";

/** Few of each, so that lines begin and end alike or are the same, and long ones, so that whole blocks are. */
const line = fc
  .record({
    id: fc.constantFrom(1, 2, 12),
    path: fc.constantFrom("/a", "/ab", `/${"x".repeat(700)}`),
    source: fc.constantFrom("x", "ä", "y".repeat(1500)),
    options: fc.constantFrom("rw", "rw,x"),
  })
  .map(({ id, path, source, options }) => `${id} 1 8:1 / ${path} rw - ext4 ${source} ${options}`);
const table = fc.array(line, { maxLength: 12 });

/** From one look to the next some lines go and some come, or everything is another. */
const edit = fc.record({ at: fc.nat(12), gone: fc.nat(3), come: fc.array(line, { maxLength: 3 }) });
const change = fc.oneof({ weight: 4, arbitrary: edit }, { weight: 1, arbitrary: table });

const textOf = (lines: readonly string[]): string => lines.map((each) => `${each}\n`).join("");

describe("a table that is read again and again", () => {
  test("[I2] whatever changed in between, it is read as if it were read for the first time", () => {
    fc.assert(
      fc.property(table, fc.array(change, { maxLength: 8 }), (first, changes) => {
        const linesOf = createMountinfoLines();
        let now = first;
        expect(linesOf(Buffer.from(textOf(now)))).toEqual(parseMountinfo(textOf(now)));
        for (const each of changes) {
          now = Array.isArray(each) ? each : now.toSpliced(each.at, each.gone, ...each.come);
          expect(linesOf(Buffer.from(textOf(now)))).toEqual(parseMountinfo(textOf(now)));
        }
      }),
      { numRuns: 1000 },
    );
  });

  test("what did not change is the very same, whoever writes over the bytes", () => {
    const linesOf = createMountinfoLines();
    const bytes = Buffer.from("1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / /a rw - ext4 x rw\n");
    const before = linesOf(bytes);
    bytes.fill(0);
    const again = Buffer.from("1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / /a rw - ext4 x rw\n");
    expect(linesOf(again)).toBe(before);
    const after = linesOf(Buffer.from("1 0 8:1 / / rw - ext4 x rw\n3 1 8:1 / /b rw - ext4 x rw\n"));
    expect(after.map(({ id }) => id)).toEqual([1, 3]);
    expect(after[0]).toBe(before[0]);
  });

  test.each([
    ["rubbish in the middle", "1 0 8:1 / / rw - ext4 x rw\nrubbish\n2 1 8:1 / /a rw - ext4 x rw\n"],
    ["an empty line", "1 0 8:1 / / rw - ext4 x rw\n\n2 1 8:1 / /a rw - ext4 x rw\n"],
    ["an end within a line", "1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / /a rw - ext4 x"],
  ])("[I2] %s is an error, also the second time, and no reason to misread what comes after", (_what, broken) => {
    const good = "1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / /a rw - ext4 x rw\n";
    const linesOf = createMountinfoLines();
    linesOf(Buffer.from(good));
    for (let count = 0; count < 2; count += 1) expect(() => linesOf(Buffer.from(broken))).toThrow(/mount/);
    expect(linesOf(Buffer.from(`${good}3 1 8:1 / /b rw - ext4 x rw\n`))).toHaveLength(3);
  });
});
