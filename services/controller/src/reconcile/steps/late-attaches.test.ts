import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { lateCallMs } from "../../domain/doubt.ts";
import { createLateAttaches } from "./late-attaches.ts";

const dayMs = 86_400_000;

const start = () => {
  const clock = createManualClock();
  const attachment = { node: "a", lateAttachUntil: clock.now() + lateCallMs };
  const late = createLateAttaches(clock);
  return { clock, isOver: () => late.isOver("v", attachment), late, attachment };
};

test.each([dayMs, 3_600_000, 0, -3_600_000, -dayMs])(
  "[LA1] a wall clock that is set by %i ms changes nothing of a wait that was seen",
  async (by) => {
    const { clock, isOver } = start();
    expect(isOver()).toBe(false);
    clock.setWall(clock.now() + by);
    expect(isOver()).toBe(false);
    await clock.advance(lateCallMs - 1);
    expect(isOver()).toBe(false);
    await clock.advance(1);
    expect(isOver()).toBe(true);
  },
);

test("[LA2] a record from before the wall clock was set back waits as long as a call may take, and not longer", async () => {
  const { clock, isOver } = start();
  clock.setWall(clock.now() - dayMs);
  expect(isOver()).toBe(false);
  await clock.advance(lateCallMs);
  expect(isOver()).toBe(true);
});

test("an attach that was answered, or none at all, is over; each pair waits for itself", async () => {
  const { clock, isOver, late, attachment } = start();
  expect([late.isOver("v", undefined), late.isOver("v", { node: "a" })]).toEqual([true, true]);
  expect(isOver()).toBe(false);
  await clock.advance(lateCallMs / 2);
  expect(late.isOver("w", attachment)).toBe(false);
  await clock.advance(lateCallMs / 2);
  expect([isOver(), late.isOver("w", attachment)]).toEqual([true, true]);
});
