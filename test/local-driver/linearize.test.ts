import { expect, test } from "vitest";
import { linearize, type Timed } from "./linearize.ts";

/** A register: what is written is what is read. */
interface Access extends Timed {
  readonly write?: number;
  readonly read?: number;
}

const check = (history: readonly Access[]): readonly number[] =>
  linearize(history, 0 as number, (state, { write, read }) => write ?? (read === state ? state : undefined), String)
    .finals;

test("one after another", () => {
  expect(
    check([
      { start: 0, end: 1, write: 5 },
      { start: 2, end: 3, read: 5 },
    ]),
  ).toEqual([5]);
  expect(
    check([
      { start: 0, end: 1, write: 5 },
      { start: 2, end: 3, read: 0 },
    ]),
  ).toEqual([]);
});

test("overlapping calls may take either order, and each only one place", () => {
  const write = { start: 0, end: 10, write: 5 };
  expect(check([write, { start: 1, end: 2, read: 0 }])).toEqual([5]);
  expect(check([write, { start: 1, end: 2, read: 5 }])).toEqual([5]);
  expect(check([write, { start: 1, end: 2, read: 5 }, { start: 3, end: 4, read: 0 }])).toEqual([]);
  expect(check([write, { start: 1, end: 2, read: 0 }, { start: 3, end: 4, read: 5 }])).toEqual([5]);
});

test("all states that it may have ended in are told", () => {
  const finals = check([
    { start: 0, end: 10, write: 5 },
    { start: 1, end: 9, write: 6 },
  ]);
  expect(finals.toSorted()).toEqual([5, 6]);
});

test("of a history that has no order, the longest beginning that has one is told", () => {
  const history: readonly Access[] = [
    { start: 0, end: 1, write: 5 },
    { start: 2, end: 3, read: 5 },
    { start: 4, end: 5, read: 6 },
  ];
  const { longest } = linearize(
    history,
    0,
    (state: number, { write, read }: Access) => write ?? (read === state ? state : undefined),
    String,
  );
  expect(longest).toEqual(history.slice(0, 2));
});
