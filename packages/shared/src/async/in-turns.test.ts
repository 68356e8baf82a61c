import { expect, test } from "vitest";
import { inTurns } from "./in-turns.ts";

test("each item has its turn once, in order, and no more than so many at a time", async () => {
  const seen: number[] = [];
  let running = 0;
  let most = 0;
  await inTurns([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    seen.push(item);
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
  });
  expect([seen, most, running]).toEqual([[1, 2, 3, 4, 5, 6, 7], 3, 0]);
});

test("a failure is told", async () => {
  await expect(inTurns([1, 2], 2, (item) => Promise.reject(new Error(`no ${item}`)))).rejects.toThrow("no 1");
});
