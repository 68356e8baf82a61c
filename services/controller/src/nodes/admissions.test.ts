import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { createAdmissions } from "./admissions.ts";

const never = new AbortController().signal;
const turns = async (): Promise<void> => {
  for (let n = 0; n < 10; n += 1) await Promise.resolve();
};

test("AD1 streams are taken in order, at most so many a second, and the first at once", async () => {
  const clock = createManualClock();
  const admissions = createAdmissions({ clock, perSecond: 10, maxWaiting: 100 });
  const taken: number[] = [];
  for (let n = 0; n < 25; n += 1) void admissions.enter(never).then(() => taken.push(n));
  await turns();
  expect(taken).toEqual([0]);
  for (let second = 1; second <= 3; second += 1) {
    await clock.advance(1_000);
    await turns();
    expect(taken.length).toBe(Math.min(25, 10 * second + 1));
  }
  expect(taken).toEqual([...taken].sort((a, b) => a - b));
});

test("AD2 what waits is bounded, and one that gave up waits no more", async () => {
  const clock = createManualClock();
  const admissions = createAdmissions({ clock, perSecond: 10, maxWaiting: 2 });
  const given = new AbortController();
  await admissions.enter(never);
  const waiting = [admissions.enter(given.signal), admissions.enter(never)];
  await expect(admissions.enter(never)).rejects.toMatchObject({ kind: "exhausted", reason: "OVERLOADED" });
  given.abort(new Error("gone"));
  await expect(waiting[0]).rejects.toThrow("gone");
  expect(admissions.waiting()).toBe(1);
  await clock.advance(1_000);
  await waiting[1];
  await admissions.enter(never);
});
