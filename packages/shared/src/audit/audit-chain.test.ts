import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ChainHead, checkChain, emptyChain, nextLine } from "./audit-chain.ts";

const chainOf = (words: readonly string[], from: ChainHead = emptyChain): readonly string[] => {
  let head = from;
  return words.map((word, at) => {
    const line = nextLine(head, at * 1000, { kind: "act", word });
    head = line.head;
    return line.text;
  });
};

const check = (texts: readonly string[], head?: string) =>
  checkChain(
    texts.map((text, at) => ({ file: "acts", line: at + 1, text })),
    head,
  );

/** Found without a head, or by the head alone: then the run is sound by itself and lacks the line that it has to hold. */
const isFound = (texts: readonly string[], head: string): boolean => {
  const found = check(texts, head);
  return found === undefined || "bad" in found || !found.hasAsked;
};

const words = fc.array(fc.string(), { minLength: 3, maxLength: 12 });
const headOf = (texts: readonly string[]): string => {
  const found = check(texts);
  return found !== undefined && "head" in found ? found.head.hash : "";
};

describe("a chain", () => {
  test("of lines as they were written is sound, from wherever it is read, and says what it holds", () => {
    const lines = chainOf(["a", "b", "c"]);
    expect(check(lines)).toMatchObject({
      count: 3,
      first: 1,
      head: { seq: 3 },
      last: { file: "acts", line: 3 },
      missing: 0,
    });
    expect(check(lines.slice(1))).toMatchObject({ count: 2, first: 2, head: { seq: 3, hash: headOf(lines) } });
    expect(check([])).toBeUndefined();
  });

  test("has its kind at the same place in every line, wherever the writer names it", () => {
    const { text, head } = nextLine(emptyChain, 0, { first: 1, kind: "act" });
    expect(text).toMatch(/^\{"seq":1,"prev":"0{64}","at":"1970-01-01T00:00:00.000Z","kind":"act","first":1\}$/);
    expect(check([text])).toMatchObject({ head });
  });

  test("in which one line was changed is found, with its head also when that was the last one", () => {
    const change = fc.tuple(words, fc.nat(), fc.nat(), fc.integer({ min: 1, max: 127 }));
    fc.assert(
      fc.property(change, ([texts, which, where, by]) => {
        const lines = chainOf(texts);
        const at = which % lines.length;
        const line = lines[at] ?? "";
        const place = where % line.length;
        const changed = line.slice(0, place) + String.fromCharCode(line.charCodeAt(place) ^ by) + line.slice(place + 1);
        const after = lines.with(at, changed);
        if (at < lines.length - 1) expect(check(after)).toHaveProperty("bad");
        expect(isFound(after, headOf(lines))).toBe(true);
      }),
    );
  });

  test("in which the text of a line was changed names that very line", () => {
    fc.assert(
      fc.property(words, fc.nat(), (texts, which) => {
        const lines = chainOf(texts);
        const at = which % (lines.length - 2);
        const changed = lines.with(at, (lines[at] ?? "").replace(/"word":.*$/, '"word":"another"}'));
        fc.pre(changed[at] !== lines[at]);
        expect(check(changed)).toMatchObject({ bad: { line: at + 1, reason: /was changed/ } });
      }),
    );
  });

  test("in which a line is left out, repeated, put between or exchanged with another is found", () => {
    const two = fc.tuple(words, fc.nat(), fc.nat());
    fc.assert(
      fc.property(two, ([texts, a, b]) => {
        const lines = chainOf(texts);
        const [i, j] = [a % lines.length, b % lines.length];
        const head = headOf(lines);
        expect(isFound(lines.toSpliced(i, 1), head) || i === 0).toBe(true);
        if (i > 0 && i < lines.length - 1) expect(check(lines.toSpliced(i, 1))).toHaveProperty("bad");
        expect(check(lines.toSpliced(i, 0, lines[j] ?? ""))).toHaveProperty("bad");
        if (i !== j) expect(check(lines.with(i, lines[j] ?? "").with(j, lines[i] ?? ""))).toHaveProperty("bad");
      }),
    );
  });

  test("into which a line of another chain was put is found, also where its number fits", () => {
    fc.assert(
      fc.property(words, words, fc.nat(), (own, foreign, which) => {
        const [lines, others] = [chainOf(own), chainOf(["other", ...foreign])];
        const at = 1 + (which % (Math.min(lines.length, others.length) - 1));
        expect(check(lines.with(at, others[at] ?? ""))).toHaveProperty("bad");
      }),
    );
  });

  test("whose end was cut off is found by its head alone", () => {
    fc.assert(
      fc.property(words, fc.nat(), (texts, which) => {
        const lines = chainOf(texts);
        const cut = lines.slice(0, 1 + (which % (lines.length - 1)));
        expect(check(cut)).toMatchObject({ count: cut.length });
        expect(isFound(cut, headOf(lines))).toBe(true);
      }),
    );
  });

  test("says in words which lines are missing, changed or out of place", () => {
    const lines = chainOf(["a", "b", "c", "d", "e"]);
    const reason = (texts: readonly string[]) => check(texts);
    expect(reason(lines.toSpliced(1, 1))).toMatchObject({
      bad: { line: 2, reason: "is line 3 of the chain, and line 2 is missing before it" },
    });
    expect(reason(lines.toSpliced(1, 2))).toMatchObject({
      bad: { line: 2, reason: "is line 4 of the chain, and lines 2 to 3 are missing before it" },
    });
    expect(reason(lines.toSpliced(3, 0, lines[0] ?? ""))).toMatchObject({
      bad: { line: 4, reason: expect.stringContaining("is line 1 of the chain, and stands after line 3") },
    });
    expect(reason([...lines.slice(0, 2), '{"seq":3,"prev'])).toMatchObject({
      bad: { line: 3, reason: "is no line of an audit file, or was not written whole" },
    });
    expect(reason(chainOf(["x"], { seq: 0, hash: "1".repeat(64) }))).toMatchObject({
      bad: { line: 1, reason: "is the first line of a chain, and names one before it" },
    });
  });
});
