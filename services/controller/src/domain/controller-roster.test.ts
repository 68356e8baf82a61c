import { expect, test } from "vitest";
import {
  type KnownController,
  mostControllers,
  onRecordMs,
  shutOutBy,
  stillKnown,
  withController,
} from "./controller-roster.ts";

const one = (id: string, seenAt: number, newest = 1, oldest = 1): KnownController => ({
  id,
  version: "0.1.0",
  formats: { oldest, newest },
  seenAt,
});
const idsOf = (controllers: readonly KnownController[]): readonly string[] => controllers.map(({ id }) => id);

test("T1 a controller stands on it once, as it spoke last", () => {
  const before = withController(withController([], one("a", 1)), one("b", 2));
  expect(withController(before, one("a", 3, 2))).toEqual([one("a", 3, 2), one("b", 2)]);
});

test("T2 a controller is on it for an hour, and is off it when another speaks after that", () => {
  const both = withController([one("a", 0)], one("b", onRecordMs - 1));
  expect(idsOf(stillKnown(both, onRecordMs - 1))).toEqual(["b", "a"]);
  expect(idsOf(stillKnown(both, onRecordMs))).toEqual(["b"]);
  expect(idsOf(withController(both, one("c", onRecordMs)))).toEqual(["c", "b"]);
});

test("T3 it is bounded, and those that were silent longest are off it", () => {
  let all: readonly KnownController[] = [];
  for (let at = 0; at < mostControllers + 2; at += 1) all = withController(all, one(`c${at}`, at));
  expect(all).toHaveLength(mostControllers);
  expect(idsOf(all)).not.toContain("c1");
  expect(all[0]?.id).toBe(`c${mostControllers + 1}`);
});

test("a controller is shut out by a format below or beyond those that it reads", () => {
  const all = [one("old", 0), one("new", 0, 2), one("next", 0, 3, 2)];
  expect(idsOf(shutOutBy(all, 2))).toEqual(["old"]);
  expect(idsOf(shutOutBy(all, 1))).toEqual(["next"]);
});
