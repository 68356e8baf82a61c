import { expect, test } from "vitest";
import { alarm } from "./alarm.ts";
import { createManualClock } from "./manual-clock.ts";

const dayMs = 24 * 3_600_000;

test("an alarm beyond the longest timer of Node goes off once, at its time", async () => {
  const clock = createManualClock();
  let rung = 0;
  alarm(clock, clock.now() + 40 * dayMs, () => {
    rung += 1;
  });
  await clock.advance(40 * dayMs - 1);
  expect(rung).toBe(0);
  await clock.advance(dayMs);
  expect(rung).toBe(1);
  expect(clock.pending()).toBe(0);
});

test("it follows a wall clock that is set, and one that is taken back never goes off", async () => {
  const clock = createManualClock();
  const rung: string[] = [];
  alarm(clock, clock.now() + dayMs, () => rung.push("kept"));
  const cancel = alarm(clock, clock.now() + dayMs, () => rung.push("taken back"));
  cancel();
  clock.setWall(clock.now() + 2 * dayMs);
  await clock.advance(60_000);
  expect(rung).toEqual(["kept"]);
  expect(clock.pending()).toBe(0);
});
